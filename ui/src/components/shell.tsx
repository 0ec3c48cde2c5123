/** What surrounds every page: navigation, top bar, search, sign-in, messages. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { access, api, ApiError, isSignedIn, needsToken, signIn, signOut } from "../api.ts";
import { useKeys } from "../lib/keyboard.ts";
import { NAVIGATION } from "../lib/navigation.ts";
import { theme, zone } from "../lib/preferences.ts";
import { useQuery } from "../lib/query.ts";
import { apiBase, href, navigate, path, place } from "../lib/router.ts";
import { isPaused, liveness, staleSeconds, stats } from "../live.ts";
import { nextZone } from "../lib/time.ts";
import { t } from "../strings.ts";
import { Dialog, Questions } from "./dialog.tsx";
import { Icon } from "./icons.tsx";
import { Palette } from "./palette.tsx";
import { Toasts } from "./toasts.tsx";

export function Shell({ children }: { children: ComponentChildren }) {
  const isMenuOpen = useSignal(false);
  const isSearching = useSignal(false);
  const isHelping = useSignal(false);
  useEffect(() => {
    isMenuOpen.value = false;
  }, [place.value.path]);
  useEffect(() => {
    const open = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        isSearching.value = true;
      }
    };
    document.addEventListener("keydown", open);
    return () => document.removeEventListener("keydown", open);
  }, []);
  useKeys(
    {
      "/": () => (isSearching.value = true),
      "?": () => (isHelping.value = true),
      p: () => (isPaused.value = !isPaused.value),
      ...Object.fromEntries(NAVIGATION.map((item) => [`g ${item.key}`, () => navigate(item.path)])),
    },
  );
  return (
    <div class={`shell ${isMenuOpen.value ? "menu-open" : ""}`}>
      <a class="skip" href="#content">
        {t.skip}
      </a>
      <Rail onHelp={() => (isHelping.value = true)} />
      <button type="button" class="rail-veil" aria-label={t.close} tabIndex={-1} onClick={() => (isMenuOpen.value = false)} />
      <div class="main">
        <TopBar isMenuOpen={isMenuOpen.value} onMenu={() => (isMenuOpen.value = !isMenuOpen.value)} onSearch={() => (isSearching.value = true)} />
        <main id="content" tabIndex={-1}>
          {needsToken.value ? <SignIn /> : children}
        </main>
      </div>
      {isSearching.value && <Palette onClose={() => (isSearching.value = false)} />}
      {isHelping.value && <Help onClose={() => (isHelping.value = false)} />}
      <Questions />
      <Toasts />
    </div>
  );
}

function Rail({ onHelp }: { onHelp: () => void }) {
  const current = NAVIGATION.findLast((item) => path.value === item.path || (item.path !== "/" && path.value.startsWith(`${item.path}/`)));
  const dead = stats.value?.dlq_size ?? 0;
  return (
    <nav class="rail" aria-label={t.nav.label}>
      <a class="brand" href={href("/")}>
        <img src={href("/icon.svg")} width={26} height={26} alt="" />
        <span>{t.app}</span>
      </a>
      <ul>
        {NAVIGATION.map((item) => (
          <li>
            <a href={href(item.path)} aria-current={item === current ? "page" : undefined}>
              <Icon name={item.icon} size={18} />
              <span>{item.label}</span>
              {item.path === "/dead" && dead > 0 && <span class="badge">{dead > 9_999 ? "10k+" : t.count(dead)}</span>}
            </a>
          </li>
        ))}
      </ul>
      <div class="rail-foot">
        <button type="button" class="quiet" onClick={onHelp}>
          <Icon name="help" size={18} /> {t.help.title}
        </button>
        <a href={new URL("docs", apiBase).href} target="_blank" rel="noreferrer">
          <Icon name="external" size={18} /> {t.nav.docs}
        </a>
      </div>
    </nav>
  );
}

function TopBar({ isMenuOpen, onMenu, onSearch }: { isMenuOpen: boolean; onMenu: () => void; onSearch: () => void }) {
  const system = useQuery("system", api.system, { every: 60 });
  return (
    <header class="topbar">
      <button type="button" class="quiet menu-button" aria-label={t.menu} aria-expanded={isMenuOpen} onClick={onMenu}>
        <Icon name="menu" size={20} />
      </button>
      <span class="deployment" title={system.data?.instance_id}>
        {system.data && (
          <>
            <strong>{location.host}</strong> <span class="faint">{system.data.store}</span>
          </>
        )}
      </span>
      <button type="button" class="search-button" aria-label={`${t.search.placeholder} Ctrl K`} onClick={onSearch}>
        <Icon name="search" />
        <span class="search-words">{t.search.placeholder}</span>
        <kbd>Ctrl K</kbd>
      </button>
      <div class="topbar-end">
        <WhoAmI />
        <LiveBadge />
        <button
          type="button"
          class="quiet zone"
          aria-label={`${t.zone[zone.value]}. ${t.zone.switchTo(t.zone.names[nextZone(zone.value)])}`}
          title={`${t.zone.now(t.zone.names[zone.value])} ${t.zone.switchTo(t.zone.names[nextZone(zone.value)])}`}
          onClick={() => (zone.value = nextZone(zone.value))}
        >
          {t.zone[zone.value]}
        </button>
        <ThemeButton />
        {isSignedIn.value && (
          <button type="button" class="quiet wide-only" onClick={() => void signOut()}>
            {t.login.signOut}
          </button>
        )}
      </div>
    </header>
  );
}

/** The caller's name where the server asks for a token, and that nothing can be changed where that is so. */
function WhoAmI() {
  const me = access.value;
  if (me === null) return null;
  const cannotChange = me.read_only || me.role === "viewer";
  return (
    <>
      {me.requires_token && (
        <span class="faint wide-only" title={t.who.title(me.name, me.role)}>
          {me.name}
        </span>
      )}
      {cannotChange && (
        <span class="badge" title={me.read_only ? t.who.serverReadOnly : t.who.viewer}>
          {t.who.readOnly}
        </span>
      )}
    </>
  );
}

function LiveBadge() {
  const state = liveness.value;
  const words = state === "stale" ? t.live.stale(staleSeconds.value) : t.live[state];
  return (
    <button
      type="button"
      class={`live live-${state}`}
      title={isPaused.value ? t.live.resume : t.live.pause}
      aria-label={`${words}. ${isPaused.value ? t.live.resume : t.live.pause}`}
      onClick={() => (isPaused.value = !isPaused.value)}
    >
      <span class="dot" aria-hidden="true" />
      <span class="live-words">{words}</span>
    </button>
  );
}

function ThemeButton() {
  const next = { system: "light", light: "dark", dark: "system" } as const;
  const icon = { system: "screen", light: "sun", dark: "moon" } as const;
  const label = t.theme[theme.value];
  return (
    <button type="button" class="quiet" aria-label={label} title={label} onClick={() => (theme.value = next[theme.value])}>
      <Icon name={icon[theme.value]} size={18} />
    </button>
  );
}

function SignIn() {
  const [method, setMethod] = useState<"token" | "password">("token");
  const [text, setText] = useState("");
  const [user, setUser] = useState("");
  const [refusal, setRefusal] = useState("");
  const isToken = method === "token";
  const choose = (next: "token" | "password") => {
    setMethod(next);
    setText("");
    setRefusal("");
  };
  return (
    <div class="sign-in">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          signIn(isToken ? text.trim() : { user: user.trim(), password: text }).catch((error: unknown) => {
            const wrong = isToken ? t.login.wrong : t.login.wrongPassword;
            setRefusal(error instanceof ApiError && error.status !== 401 ? error.detail : wrong);
          });
        }}
      >
        <div class="card-body">
          <h1>{t.login.title}</h1>
          <p>{t.login.body}</p>
          <div class="field" role="radiogroup" aria-label={t.login.method}>
            {(["token", "password"] as const).map((one) => (
              <label key={one}>
                <input type="radio" name="method" checked={method === one} onChange={() => choose(one)} />{" "}
                {one === "token" ? t.login.byToken : t.login.byPassword}
              </label>
            ))}
          </div>
          {refusal && (
            <p class="field-error" role="alert">
              {refusal}
            </p>
          )}
          {!isToken && (
            <div class="field">
              <label for="user">{t.login.user}</label>
              <input id="user" autoComplete="username" required value={user} onInput={(event) => setUser(event.currentTarget.value)} />
            </div>
          )}
          <div class="field">
            <label for={isToken ? "token" : "password"}>{isToken ? t.login.field : t.login.password}</label>
            <input
              id={isToken ? "token" : "password"}
              type="password"
              autoComplete={isToken ? "off" : "current-password"}
              autoFocus
              required
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          </div>
          <button type="submit" class="primary">
            {t.login.submit}
          </button>
        </div>
      </form>
    </div>
  );
}

function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t.help.title} onClose={onClose} class="small">
      <dl class="keys">
        {t.help.keys.map(([keys, words]) => (
          <>
            <dt>
              {keys.split(", ").map((key, index) => (
                <>
                  {index > 0 && " "}
                  <kbd>{key}</kbd>
                </>
              ))}
            </dt>
            <dd>{words}</dd>
          </>
        ))}
      </dl>
    </Dialog>
  );
}

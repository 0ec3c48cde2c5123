/** Loading data for a page: once, when its key changes, when the server reports a change, and by the clock. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, needsToken, signIns } from "../api.ts";
import { changed, followTopic, isPaused, updates } from "../live.ts";

export interface Query<T> {
  data: T | null;
  error: ApiError | null;
  isLoading: boolean;
  reload: () => void;
}

/** The least time between two loads; less after a change of the topic that is followed, which is to be seen at once. */
const SHORTEST_MILLISECONDS = 1_000;
const SHORTEST_AFTER_CHANGE = 200;

/**
 * Loads data and keeps it up to date. `every` is how often to look when nothing was heard, in seconds; `isLive` also
 * looks after each update of the stream, or after those that `concerns` says matter here; `topic` follows a topic of it. What is shown stays while it
 * is loaded again.
 */
export function useQuery<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  options: { isLive?: boolean; every?: number; concerns?: () => boolean; topic?: string } = {},
): Query<T> {
  const [state, setState] = useState<{ key: string; data: T | null; error: ApiError | null; isLoading: boolean }>({
    key,
    data: null,
    error: null,
    isLoading: true,
  });
  const loading = useRef(load);
  loading.current = load;
  const concerns = useRef(options.concerns);
  concerns.current = options.concerns;
  const again = useRef<() => void>(() => undefined);

  useEffect(() => {
    let stop = new AbortController();
    let isBusy = false;
    let wanted: number | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let dueAt = 0;
    let lastAt = 0;

    const run = async (): Promise<void> => {
      isBusy = true;
      lastAt = Date.now();
      try {
        const data = await loading.current(stop.signal);
        if (!stop.signal.aborted) setState({ key, data, error: null, isLoading: false });
      } catch (error) {
        if (stop.signal.aborted) return;
        const refusal = error instanceof ApiError ? error : new ApiError(0, "client_error", String(error));
        setState((known) => ({ key, data: known.key === key ? known.data : null, error: refusal, isLoading: false }));
      } finally {
        isBusy = false;
      }
      if (wanted !== null) wish(wanted);
    };
    const wish = (least: number = SHORTEST_MILLISECONDS): void => {
      if (isBusy) {
        wanted = Math.min(wanted ?? least, least);
        return;
      }
      wanted = null;
      const at = lastAt + least;
      // A load that is due sooner stays so.
      if (timer !== undefined && dueAt <= at) return;
      clearTimeout(timer);
      dueAt = at;
      timer = setTimeout(() => {
        timer = undefined;
        void run();
      }, Math.max(at - Date.now(), 0));
    };
    again.current = () => {
      stop.abort();
      stop = new AbortController();
      isBusy = false;
      void run();
    };

    setState((known) => ({ ...known, key, data: known.key === key ? known.data : null, isLoading: true }));
    void run();
    const seen = updates.peek();
    const leave = options.isLive ? updates.subscribe((count) => count !== seen && (concerns.current?.() ?? true) && wish()) : undefined;
    const topic = options.topic;
    const unfollow = topic ? followTopic(topic) : undefined;
    const seenChange = changed.peek().count;
    const leaveTopic = topic ? changed.subscribe((change) => change.count !== seenChange && change.topic === topic && wish(SHORTEST_AFTER_CHANGE)) : undefined;
    const leaveToken = signIns.subscribe((count) => count && !needsToken.peek() && lastAt && wish());
    const clock = setInterval(() => {
      if (!document.hidden && !isPaused.peek()) wish();
    }, (options.every ?? 15) * 1_000);
    return () => {
      stop.abort();
      clearTimeout(timer);
      clearInterval(clock);
      leave?.();
      leaveTopic?.();
      unfollow?.();
      leaveToken();
    };
  }, [key, options.isLive, options.every, options.topic]);

  const isFresh = state.key === key;
  return {
    data: isFresh ? state.data : null,
    error: isFresh ? state.error : null,
    isLoading: !isFresh || state.isLoading,
    reload: () => again.current(),
  };
}

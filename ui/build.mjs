// Builds the dashboard: `node build.mjs OUTPUT` writes static files with content hashes in their names, and an
// index.html that refers to them. `node build.mjs --tests` bundles the unit tests for `node --test`.
import { gzipSync } from "node:zlib";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const LARGEST_FIRST_LOAD = 150_000;
const COMMON = {
  bundle: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  absWorkingDir: HERE,
};

if (process.argv[2] === "--tests") {
  await bundleTests();
} else {
  await bundlePages(resolve(process.argv[2] ?? join(HERE, "../src/rota/api/ui_files")));
}

async function bundlePages(output) {
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  const { metafile } = await build({
    ...COMMON,
    entryPoints: { app: "src/main.tsx", style: "src/style.css" },
    outdir: join(output, "assets"),
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    splitting: true,
    minify: true,
    metafile: true,
  });
  const files = Object.entries(metafile.outputs).map(([path, info]) => ({
    path: relative(output, resolve(HERE, path)).replaceAll("\\", "/"),
    info,
  }));
  const script = files.find((file) => file.info.entryPoint === "src/main.tsx");
  const style = files.find((file) => file.info.entryPoint === "src/style.css");
  const first = [style.path, ...staticImports(script.path, files)];
  const page = readFileSync(join(HERE, "src/index.html"), "utf8")
    .replaceAll("{style}", style.path)
    .replaceAll("{script}", script.path)
    .replaceAll(
      "{preload}",
      first
        .filter((path) => path.endsWith(".js") && path !== script.path)
        .map((path) => `<link rel="modulepreload" href="{root}${path}">`)
        .join("\n    "),
    );
  writeFileSync(join(output, "index.html"), page);
  for (const icon of ["icon.svg"]) writeFileSync(join(output, icon), readFileSync(join(HERE, "src", icon)));
  report(output, first);
}

/** Lists a script and all scripts that it imports statically: what a browser loads before the first page shows. */
function staticImports(path, files, seen = []) {
  if (seen.includes(path)) return seen;
  seen.push(path);
  const file = files.find((one) => one.path === path);
  for (const one of file?.info.imports ?? []) {
    if (one.kind === "import-statement") staticImports(join("assets", basename(one.path)), files, seen);
  }
  return seen;
}

function report(output, first) {
  const size = (path) => gzipSync(readFileSync(join(output, path))).length;
  const total = first.reduce((sum, path) => sum + size(path), 0);
  const all = readdirSync(join(output, "assets")).reduce((sum, name) => sum + size(join("assets", name)), 0);
  console.log(`ui: first load ${(total / 1000).toFixed(1)} kB gzipped, all pages ${(all / 1000).toFixed(1)} kB`);
  if (total > LARGEST_FIRST_LOAD) {
    console.error(`ui: the first load is larger than ${LARGEST_FIRST_LOAD / 1000} kB; load a page lazily`);
    process.exitCode = 1;
  }
}

async function bundleTests() {
  const output = join(HERE, "node_modules/.cache/tests");
  rmSync(output, { recursive: true, force: true });
  const tests = readdirSync(join(HERE, "test")).filter((name) => name.endsWith(".test.ts"));
  await build({
    ...COMMON,
    entryPoints: tests.map((name) => `test/${name}`),
    outdir: output,
    outExtension: { ".js": ".mjs" },
    platform: "node",
  });
}

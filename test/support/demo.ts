/** The demo site and the truth about it, typed: they ship as plain modules outside the build. */
import { fileURLToPath } from 'node:url';

export type Demo = { readonly url: string; close(): Promise<void> };

/** The results of a correct crawl of the demo; every list is sorted, absolute, and without
 *  duplicates. */
type DemoTruth = {
  readonly pages: readonly string[];
  readonly images: readonly string[];
  readonly srcset: readonly string[];
  readonly broken: readonly string[];
  readonly others: readonly string[];
  readonly external: readonly string[];
  readonly redirects: readonly { from: string; to: string; status: number }[];
  readonly titles: Readonly<Record<string, string>>;
  readonly charsets: Readonly<Record<string, string>>;
};

const moduleAt = (name: string) =>
  import(fileURLToPath(new URL(`../../../demo/${name}.mjs`, import.meta.url)));

export async function startDemo(options: { port?: number; delayMs?: number } = {}): Promise<Demo> {
  const server: { startDemo(given: typeof options): Promise<Demo> } = await moduleAt('server');
  return await server.startDemo(options);
}

export async function demoTruth(url: string): Promise<DemoTruth> {
  const truth: { demoTruth(siteUrl: string): DemoTruth } = await moduleAt('truth');
  return truth.demoTruth(url);
}

/**
 * The settings of a crawl for the browser: which pages are rendered, and what happens to each
 * before it is read. Source: docs/browser.md, [T-140].
 */
import * as z from 'zod';

/** Limits of one page in the browser. */
export const renderLimits = {
  /** From its first script to its text. */
  timeMs: 30_000,
  /** Requests that its scripts, styles and images cause. */
  requests: 200,
  /** The requests of a page over the network, its own document aside. */
  bytes: 20 << 20,
  /** Requests at once to one host, of all pages of a slave. */
  perHost: 6,
  /** CSS pixels of a screenshot, and the bytes of its file. */
  screenshotWidth: 2_560,
  screenshotHeight: 10_000,
  screenshotBytes: 10 << 20,
} as const;

/** Things that a page in the browser lacked or may not use. */
export const renderMisses = ['wait', 'click', 'limit', 'screenshot', 'certificate'] as const;
export type RenderMiss = (typeof renderMisses)[number];

const selector = z
  .string({ error: 'must be a CSS selector' })
  .min(1, { error: 'must be a CSS selector' })
  .max(1_024, { error: 'must have at most 1024 characters' });

const whens = ['always', 'auto'] as const;

const settings = z.strictObject(
  {
    /** `auto`: only a page in which nothing is found without a browser. */
    when: z.enum(whens, { error: 'must be always or auto' }).default('always'),
    /** The condition to wait for: an element, or a time in ms. */
    wait: z
      .union([selector, z.int().min(1).max(20_000)], {
        error: 'must be a CSS selector, or a time of 1 to 20000 ms',
      })
      .optional(),
    /** The element to click, and how often at most. */
    click: selector.optional(),
    clicks: z
      .int({ error: 'must be a number from 1 to 50' })
      .min(1, { error: 'must be a number from 1 to 50' })
      .max(50, { error: 'must be a number from 1 to 50' })
      .optional(),
    /** How often at most the page is scrolled to its end. */
    scroll: z
      .int({ error: 'must be a number from 1 to 50' })
      .min(1, { error: 'must be a number from 1 to 50' })
      .max(50, { error: 'must be a number from 1 to 50' })
      .optional(),
    /** Kinds of files that are loaded besides. */
    load: z
      .array(z.enum(['fonts', 'media'], { error: 'must be fonts or media' }))
      .max(2)
      .optional(),
    /** Kept as files, see `views`. */
    html: z.boolean({ error: 'must be true or false' }).optional(),
    screenshot: z.boolean({ error: 'must be true or false' }).optional(),
  },
  { error: keysText },
);

const short = z.union([z.boolean(), z.enum([...whens, 'true'])]);

/** `true`, `auto`, or all that can be said. `false` is the same as nothing. */
export const renderSchema = z
  .union([short, settings], { error: formText })
  .transform((given): z.infer<typeof settings> | undefined => {
    if (given === false) return undefined;
    if (given === true || given === 'true') return { when: 'always' };
    return typeof given === 'string' ? { when: given } : given;
  });
export type Render = NonNullable<z.infer<typeof renderSchema>>;

/** A crawl has it, or not. */
export const renderField = renderSchema
  .optional()
  .describe(
    '--render <when>  read pages in a browser: true, or auto (only pages without links and items); default: off',
  );

/** The captures of a page in the browser: its HTML then, and a picture of it. */
export const views = ['html', 'screenshot'] as const;
export type ViewName = (typeof views)[number];

type Kept = { readonly save?: unknown; readonly render?: Render | undefined };

/** Is such a view of the rendered pages of a crawl kept as a file? */
export function keepsView({ save, render }: Kept, view: ViewName): boolean {
  if (render === undefined) return false;
  return render[view] === true || (view === 'html' && save !== undefined);
}

/** Is anything kept of them? */
export function keepsViews(fetch: Kept): boolean {
  return views.some((view) => keepsView(fetch, view));
}

/** Below the folder of a crawl; the file is named by the SHA-1 of its bytes, in hexadecimal. */
export function viewPath(view: ViewName, digest: string): string {
  const [folder, end] = view === 'html' ? ['html', 'html'] : ['screenshots', 'png'];
  return `${folder}/${digest.slice(0, 2)}/${digest}.${end}`;
}

/** Of a crawl: does nothing of it go around a proxy? */
export function rendersDirectly(spec: { render?: unknown; proxies: readonly unknown[] }): boolean {
  return spec.render === undefined || spec.proxies.length === 0;
}
export const proxyFault = {
  path: ['render'],
  error: 'cannot be used with --proxy: the browser would not go through it',
};

function keysText(issue: { code?: string; keys?: unknown }): string | undefined {
  if (issue.code !== 'unrecognized_keys' || !Array.isArray(issue.keys)) return undefined;
  const keys = 'when, wait, click, clicks, scroll, load, html, screenshot';
  return `has an unknown key: ${issue.keys.join(', ')}; its keys are ${keys}`;
}

/** Of a map the fault in it; of anything else, what it may be. */
function formText(issue: { errors?: readonly (readonly z.core.$ZodIssue[])[]; input?: unknown }) {
  const { errors, input } = issue;
  const isMap = typeof input === 'object' && input !== null && !Array.isArray(input);
  const [first] = isMap ? (errors?.[1] ?? []) : [];
  if (first === undefined)
    return 'must be true, auto, or a map such as {when: auto, wait: ul.list}';
  return [...first.path.map(String), first.message].join(' ');
}

/** The screenshot of a page: all of it from its top, up to a size. */
import { renderLimits } from '../../shared/render.ts';
import type { Tab } from './tab.ts';

/** Returns a PNG. Undefined: the page has no size, or its picture is too large.
 *  @throws Error the page or the browser is gone */
export async function pictureOf(tab: Tab): Promise<Buffer | undefined> {
  const { cssContentSize, cssVisualViewport } = await tab.call('Page.getLayoutMetrics', {});
  const { screenshotWidth, screenshotHeight, screenshotBytes } = renderLimits;
  const size = {
    width: Math.min(Math.max(cssContentSize.width, cssVisualViewport.clientWidth), screenshotWidth),
    height: Math.min(cssContentSize.height, screenshotHeight),
  };
  if (size.width < 1 || size.height < 1) return undefined;
  const { data } = await tab.call('Page.captureScreenshot', {
    format: 'png',
    clip: { x: 0, y: 0, ...size, scale: 1 },
    captureBeyondViewport: true,
  });
  const picture = Buffer.from(data, 'base64');
  return picture.length <= screenshotBytes ? picture : undefined;
}

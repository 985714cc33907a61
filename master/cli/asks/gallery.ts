/** `gallery CRAWL`: a page of the images that a crawl has downloaded, of its folder alone. */
import { join } from 'node:path';
import { amount } from '../../../shared/amount.ts';
import { makeCommand, whole } from '../../../shared/cli.ts';
import { visible } from '../../../shared/visible.ts';
import { writeGallery } from '../../inspect/gallery.ts';
import { crawlName } from '../crawl-options.ts';
import { folderFlags } from '../serve-options.ts';
import type { Command, Values } from './asking.ts';

/** A command that needs no master. */
export type GalleryOptions = {
  readonly kind: 'gallery';
  readonly crawl: string;
  readonly countMax: number;
  readonly outFolder: string;
};

const countDefault = 5_000;

export function galleryCommand(
  take: (options: GalleryOptions) => void,
  env: NodeJS.ProcessEnv,
): Command {
  const command = makeCommand('gallery', env)
    .description('write a page that shows the images which a crawl has downloaded')
    .argument('<crawl>', 'name of the crawl', crawlName)
    .option('--count <n>', 'maximum number of images', whole(1, 1_000_000), countDefault);
  for (const option of folderFlags()) if (option.long === '--out') command.addOption(option);
  return command.action((crawl: string, values: Values) =>
    take({
      kind: 'gallery',
      crawl,
      outFolder: String(values['out']),
      countMax: Number(values['count']),
    }),
  );
}

/** Prints where the page is. @throws ConfigError there are no images, or it cannot be written */
export async function gallery({ crawl, countMax, outFolder }: GalleryOptions): Promise<void> {
  const { path, counts } = await writeGallery(join(outFolder, crawl), countMax);
  const { images, pages, groups, left } = counts;
  const more = left > 0 ? `; ${left} more are not shown: raise --count` : '';
  const shown = `${amount(images, 'image')} of ${amount(pages, 'page')}`;
  console.log(
    visible(`${path}: ${shown}, ${amount(groups, 'group')} of images that look the same${more}`),
  );
}

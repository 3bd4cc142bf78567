/** Lines that name an alias of the config ask for the model that it stands for, by the same choice as live calls. */
import type { Item } from '../../../engine/core/item/item.ts';
import { stage } from '../../../engine/flow/stage.ts';
import type { Names, Standing } from '../gateway/served-models.ts';

/** A line that is read again after a kill is to ask the same again: whether a server is up now is no reason to choose. */
const ANY: Standing = { isUp: () => true, isKnown: () => true };

export const aliasLines = (names: Names) =>
  stage({
    name: 'aliases',
    summary: 'Name the models that aliases stand for.',
    options: {},
    each() {
      return (item: Item): Item => {
        const { request } = item;
        const { model, user } = request?.body ?? {};
        if (request === undefined || typeof model !== 'string' || !names.isAlias(model)) return item;
        const who = (): string =>
          typeof user === 'string' && user !== '' ? user : JSON.stringify(request.body);
        const meant = names.choose(model, who, ANY).model;
        return { ...item, request: { ...request, body: { ...request.body, model: meant } } };
      };
    },
  });

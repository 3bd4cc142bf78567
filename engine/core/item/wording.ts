/** Numbers and texts as people read them: the same words for the same thing in every message. */

/** A message on one line of a terminal: what a model or a server said may hold anything. */
export function shown(message: string): string {
  return cut(cut(message, 1_000).replace(/\p{Cc}+/gu, ' '), 200);
}

export function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** `1 call`, `2,000 calls`, `1 try`, `2 tries`. */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : several}`;
}

/** 28800 → 28,800: the same in every locale, since logs are compared. */
export function number(value: number): string {
  return String(value).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** 0.834 of 1 → `83 %`; a share of nothing is `0 %`. */
export function percent(part: number, whole = 1): string {
  return `${whole > 0 ? Math.round((100 * part) / whole) : 0} %`;
}

/** 43.4 s → `43 s`, 4 321 s → `1 h 12 min`. `ms` in milliseconds. */
export function timeWords(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/**
 * A line for the operator, and what it is of. Who shows lines to a person leaves `about` out; a server's log has it as
 * fields. Neither may hold a prompt, an answer or a key.
 */
export type Say = (message: string, about?: About) => void;

export const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type Level = (typeof LEVELS)[number];

export interface About {
  /** what happened, a name that stays the same from one version to the next: `endpoint-down` */
  event: string;
  /** info unless given */
  level?: Level;
  /** ids, counts, times: what is undefined or null is left out */
  [field: string]: string | number | boolean | null | undefined;
}

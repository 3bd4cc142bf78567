/**
 * What the wire takes of undici, each from its own file: the index loads its fetch, caches and mocks too, a third of the
 * time that a run takes to start.
 */
declare module 'undici/lib/dispatcher/client.js' {
  export { Client as default } from 'undici';
}
declare module 'undici/lib/core/connect.js' {
  export { buildConnector as default } from 'undici';
}
declare module 'undici/lib/core/util.js' {
  export { util as default } from 'undici';
}

/** Of the queue that the tests use. */
export const QUEUE = 'test-any';

// The harness of toolyard test: it lists the tests of a file, and runs one of them.
import * as framework from "toolyard:framework";
import { setHost } from "toolyard:harness";

const { collect, runTest, afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, suite, test, vi } = framework;

// Test files of other runners use globals.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, suite, test, vi, jest: vi });

__runtime.install((_, request, outside) => {
  setHost(outside);
  if (request === null) return null;
  if (request.list) return collect();
  return runTest(request.run);
});

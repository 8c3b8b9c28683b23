// Signs in to a gate with the official SDK's OAuth client, and calls a tool. Usage: node oauth.mjs
// modern|legacy GATE_URL; it prints the caller's ID, the scope, and the number of parts in the
// token, which is 3 for a signed token.
import assert from "node:assert/strict";

const [era, gate] = process.argv.slice(2);
const sdk = era === "modern"
  ? await import("@modelcontextprotocol/client")
  : { ...(await import("@modelcontextprotocol/sdk/client/index.js")), ...(await import("@modelcontextprotocol/sdk/client/streamableHttp.js")), ...(await import("@modelcontextprotocol/sdk/client/auth.js")) };

/** Keeps what the SDK asks to keep, and follows the authorization URL as a browser would. */
class Person {
  redirectUrl = "http://127.0.0.1:8976/callback";
  clientMetadata = { client_name: "acceptance test", redirect_uris: [this.redirectUrl], grant_types: ["authorization_code"], response_types: ["code"], token_endpoint_auth_method: "none", application_type: "native" };
  cookies = new Map();
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  codeVerifier() { return this.verifier; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  state() { return "state-of-the-test"; }
  async redirectToAuthorization(url) {
    for (let next = url, hops = 0; hops < 10; hops++) {
      const response = await fetch(next, { redirect: "manual", headers: { cookie: [...this.cookies].map(([k, v]) => `${k}=${v}`).join("; ") } });
      for (const cookie of response.headers.getSetCookie()) {
        const [name, value] = cookie.split(";")[0].split("=");
        this.cookies.set(name, value);
      }
      next = new URL(response.headers.get("location"), next);
      if (next.href.startsWith(this.redirectUrl)) return void (this.callback = next.searchParams);
    }
    assert.fail("the provider did not return to the client");
  }
}

const person = new Person();
const connect = async () => {
  const transport = new sdk.StreamableHTTPClientTransport(new URL(gate), { authProvider: person });
  const client = new sdk.Client({ name: "acceptance", version: "1.0.0" });
  return { client, transport, done: client.connect(transport) };
};

const first = await connect();
await assert.rejects(first.done, (error) => /unauthorized/i.test(String(error.name + error.message)));
assert.equal(person.callback.get("state"), "state-of-the-test");
await first.transport.finishAuth(era === "modern" ? person.callback : person.callback.get("code")).catch(async (error) => {
  if (era !== "modern") throw error;
  await first.transport.finishAuth(person.callback.get("code"));
});
const second = await connect();
await second.done;
const result = await second.client.callTool({ name: "whoami", arguments: {} });
console.log(JSON.stringify({ caller: result.content[0].text, scope: person.saved.scope ?? "", parts: person.saved.access_token.split(".").length }));
await second.client.close();

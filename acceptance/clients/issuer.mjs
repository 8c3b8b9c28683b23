// An OpenID provider on loopback. It signs in ann and shows no page, except for the client console,
// whose redirect URI is the argument --console=URI: there, it asks which person to sign in. With
// --opaque, access tokens are opaque and resources introspect them; POST /test/expire ends all
// access tokens, POST /test/revoke also ends all refresh tokens, and GET /test/counts returns how
// many tokens were refreshed and revoked. Usage: node issuer.mjs [--console=URI] [--opaque]
// RESOURCE...; it prints its URL.
import http from "node:http";
import Provider from "oidc-provider";

const consoleURI = process.argv.find((arg) => arg.startsWith("--console="))?.slice("--console=".length);
const opaque = process.argv.includes("--opaque");
const resources = process.argv.slice(2).filter((arg) => !arg.startsWith("--"));
const people = { ann: { name: "Ann Example", groups: ["staff"] }, olivia: { name: "Olivia Example", groups: ["platform"] }, mallory: { name: "Mallory Example", groups: ["guests"] } };
const server = http.createServer((req, res) => handler(req, res));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
// For a browser, localhost and 127.0.0.1 are different sites.
const issuer = `http://${consoleURI ? "localhost" : "127.0.0.1"}:${server.address().port}`;
const clients = [{ client_id: "robot", client_secret: "robot-secret-of-the-test", grant_types: ["client_credentials"], redirect_uris: [], response_types: [] }];
if (consoleURI) clients.push({ client_id: "console", client_secret: "console-secret-of-the-test", redirect_uris: [consoleURI] });

const provider = new Provider(issuer, {
  clients,
  scopes: ["openid", "offline_access", "profile", "email", "groups", "tools.read", "tools.write"],
  claims: { openid: ["sub"], profile: ["name"], email: ["email"], groups: ["groups"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, ...people[id] }) }),
  extraTokenClaims: () => ({ groups: ["staff"] }),
  pkce: { required: () => true },
  ttl: { AuthorizationCode: 600 }, // a busy machine may take a long time to load a page
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    clientCredentials: { enabled: true },
    introspection: { enabled: opaque },
    revocation: { enabled: opaque },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo(_, indicator) {
        if (!resources.includes(indicator)) throw new Error(`unknown resource ${indicator}`);
        if (opaque) return { scope: "tools.read tools.write", audience: indicator, accessTokenFormat: "opaque" };
        return { scope: "tools.read tools.write", accessTokenFormat: "jwt", jwt: { sign: { alg: "RS256" } } };
      },
    },
  },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
});

const counts = { refreshed: 0, revoked: 0 };
const issued = { access: new Set(), refresh: new Set() };
provider.on("grant.success", (ctx) => ctx.oidc.params.grant_type === "refresh_token" && counts.refreshed++);
provider.on("grant.revoked", () => counts.revoked++);
provider.on("access_token.saved", (token) => issued.access.add(token));
provider.on("refresh_token.saved", (token) => issued.refresh.add(token));

/** Ends tokens, as an administrator of the provider would. */
async function control(action, res) {
  const ended = { expire: [issued.access], revoke: [issued.access, issued.refresh] }[action] ?? [];
  for (const tokens of ended) {
    for (const token of tokens) await token.destroy();
    tokens.clear();
  }
  res.end(JSON.stringify(counts));
}

const callback = provider.callback();
async function handler(req, res) {
  if (opaque && req.url.startsWith("/test/")) return control(req.url.slice("/test/".length), res);
  if (!req.url.startsWith("/interaction/")) return callback(req, res);
  const { prompt, params, session } = await provider.interactionDetails(req, res);
  const person = new URL(req.url, issuer).searchParams.get("as") ?? (params.client_id === "console" ? undefined : "ann");
  if (prompt.name === "login" && !person) {
    res.setHeader("Content-Type", "text/html");
    return res.end(Object.keys(people).map((id) => `<a href="?as=${id}">${id}</a> `).join(""));
  }
  if (prompt.name === "login") return provider.interactionFinished(req, res, { login: { accountId: person } });
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope ?? "openid");
  for (const resource of resources) grant.addResourceScope(resource, "tools.read tools.write");
  return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}
console.log(issuer);

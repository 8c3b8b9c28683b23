// An OpenID provider on loopback. It signs in ann without showing a page, but at the client console, whose
// redirect URI is the argument --console=URI, it asks which person to sign in.
// Usage: node issuer.mjs [--console=URI] RESOURCE...; it prints its address.
import http from "node:http";
import Provider from "oidc-provider";

const consoleURI = process.argv.find((arg) => arg.startsWith("--console="))?.slice("--console=".length);
const resources = process.argv.slice(2).filter((arg) => !arg.startsWith("--"));
const people = { ann: { name: "Ann Example", groups: ["staff"] }, olivia: { name: "Olivia Example", groups: ["platform"] }, mallory: { name: "Mallory Example", groups: ["guests"] } };
const server = http.createServer((req, res) => handler(req, res));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
// To the browser, localhost is another site than 127.0.0.1.
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
  ttl: { AuthorizationCode: 600 }, // a busy machine may take long to load a page
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo(_, indicator) {
        if (!resources.includes(indicator)) throw new Error(`unknown resource ${indicator}`);
        return { scope: "tools.read tools.write", accessTokenFormat: "jwt", jwt: { sign: { alg: "RS256" } } };
      },
    },
  },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
});

const callback = provider.callback();
async function handler(req, res) {
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

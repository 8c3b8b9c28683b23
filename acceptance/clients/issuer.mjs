// An OpenID provider on loopback. It signs in ann without showing a page.
// Usage: node issuer.mjs RESOURCE...; it prints its address.
import http from "node:http";
import Provider from "oidc-provider";

const resources = process.argv.slice(2);
const server = http.createServer((req, res) => handler(req, res));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [{ client_id: "robot", client_secret: "robot-secret-of-the-test", grant_types: ["client_credentials"], redirect_uris: [], response_types: [] }],
  scopes: ["openid", "offline_access", "tools.read", "tools.write"],
  claims: { openid: ["sub"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  extraTokenClaims: () => ({ groups: ["staff"] }),
  pkce: { required: () => true },
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
  if (prompt.name === "login") return provider.interactionFinished(req, res, { login: { accountId: "ann" } });
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope ?? "openid");
  for (const resource of resources) grant.addResourceScope(resource, "tools.read tools.write");
  return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}
console.log(issuer);

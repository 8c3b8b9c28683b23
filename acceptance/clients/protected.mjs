// An MCP server that requires an OpenID provider's access tokens (issuer.mjs --opaque), built with
// the official TypeScript SDK and its middleware. Usage: node protected.mjs modern|legacy PORT
// ISSUER
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import express from "express";
import { McpServer as ModernServer, createMcpHandler } from "@modelcontextprotocol/server";
import { InvalidTokenError } from "@modelcontextprotocol/sdk/server/auth/errors.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } from "@modelcontextprotocol/sdk/server/auth/router.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const [era, port, issuer] = process.argv.slice(2);
const resource = new URL(`http://127.0.0.1:${port}/mcp`);
const credentials = `Basic ${Buffer.from("robot:robot-secret-of-the-test").toString("base64")}`;
const text = (words) => ({ content: [{ type: "text", text: words }] });

async function verifyAccessToken(token) {
  const answer = await fetch(`${issuer}/token/introspection`, { method: "POST", headers: { Authorization: credentials }, body: new URLSearchParams({ token }) });
  const found = await answer.json();
  if (found.active !== true || found.aud !== resource.href) throw new InvalidTokenError("the token is not valid here");
  return { token, clientId: found.client_id, scopes: found.scope.split(" "), expiresAt: found.exp, resource, extra: { person: found.sub } };
}

const app = express();
app.use(mcpAuthMetadataRouter({ oauthMetadata: await (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json(), resourceServerUrl: resource, scopesSupported: ["tools.read"] }));
const authenticate = requireBearerAuth({ verifier: { verifyAccessToken }, expectedResource: resource, requiredScopes: ["tools.read"], resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource) });

function modern(req, res) {
  const handler = createMcpHandler(() => {
    const server = new ModernServer({ name: "protected", version: "1" });
    server.registerTool("whoami", { description: "Returns who calls.", inputSchema: z.object({}), annotations: { readOnlyHint: true } }, () => text(req.auth.extra.person));
    return server;
  }, { legacy: "reject" });
  const gone = new AbortController();
  res.on("close", () => gone.abort());
  const body = req.method === "POST" ? Readable.toWeb(req) : undefined;
  return handler.fetch(new Request(resource, { method: req.method, headers: req.headers, body, duplex: "half", signal: gone.signal })).then((answer) => {
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) Readable.fromWeb(answer.body).on("error", () => res.end()).pipe(res);
    else res.end();
  });
}

const sessions = new Map();
async function legacy(req, res) {
  let transport = sessions.get(req.headers["mcp-session-id"]);
  if (!transport) {
    if (req.headers["mcp-session-id"]) return res.writeHead(404).end();
    const server = new McpServer({ name: "protected", version: "1" });
    server.registerTool("whoami", { description: "Returns who calls.", inputSchema: {}, annotations: { readOnlyHint: true } }, (_, { authInfo }) => text(authInfo.extra.person));
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, transport) });
    await server.connect(transport);
  }
  await transport.handleRequest(req, res);
}

app.all("/mcp", authenticate, era === "modern" ? modern : legacy);
app.listen(Number(port), "127.0.0.1", () => console.log(resource.href));

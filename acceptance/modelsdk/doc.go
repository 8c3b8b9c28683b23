// Package modelsdk checks the scripted model server against the official Go SDKs of Anthropic,
// OpenAI and Google: they understand the responses of the server, and the server accepts their
// requests. The same server judges the drivers of package model. It is a module of its own, so that
// the SDKs are not dependencies of Toolyard.
package modelsdk

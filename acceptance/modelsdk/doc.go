// Package modelsdk checks the scripted model server against the official Go SDKs of Anthropic,
// OpenAI and Google: they can parse the server's responses, and the server accepts their requests.
// The same server tests the drivers in package model. The package is in a separate module, so that
// the SDKs are not dependencies of Toolyard.
package modelsdk

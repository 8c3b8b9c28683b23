// Package providers tests Toolyard with OpenID providers that others have written: people sign in to the
// console, and callers enter gates with their tokens. It drives the built binary, and is a module of its
// own, so that the providers are not dependencies of Toolyard. Dex takes a minute of CPU to compile, so its
// tests have a build tag.
package providers

// Package providers tests Toolyard with third-party OpenID providers: people sign in to the
// console, and callers use the providers' tokens at gates. It runs the built binary, and is in a
// separate module, so that the providers are not dependencies of Toolyard. Dex takes a minute of
// CPU to compile, so its tests have a build tag.
package providers

// Package record records calls. It writes them to the store in batches, so that callers don't have
// to wait.
package record

// Package record records calls. It writes them to the store in batches, so that callers do not wait.
package record

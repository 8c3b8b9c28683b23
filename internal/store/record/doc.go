// Package record puts calls on the record: it makes rows of them, without the caller waiting
// for the store, and writes the rows in batches.
package record

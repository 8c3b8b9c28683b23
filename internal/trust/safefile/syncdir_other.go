//go:build !unix

package safefile

// syncDir does nothing, because directories cannot be synced on this system.
func syncDir(string) error { return nil }

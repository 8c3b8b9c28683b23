//go:build !unix

package safefile

// syncDir does nothing: directories cannot be synced here.
func syncDir(string) error { return nil }

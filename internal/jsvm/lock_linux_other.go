//go:build linux && !amd64 && !arm64

package jsvm

// Other architectures have no filter; only the engine isolates scripts.
func filterCalls(bool) error { return nil }

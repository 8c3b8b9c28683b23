package jsvm

// ownBinary is this program, even if its file was replaced since it started.
func ownBinary() string { return "/proc/self/exe" }

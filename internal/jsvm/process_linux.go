package jsvm

// ownBinary returns the path of this program, even if its file has been replaced since it started.
func ownBinary() string { return "/proc/self/exe" }

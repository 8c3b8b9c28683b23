package pin

import "time"

const (
	patience = 10 * time.Second     // for another process to be done with the file
	pause    = 5 * time.Millisecond // between two attempts
)

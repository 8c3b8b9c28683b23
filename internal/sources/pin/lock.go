package pin

import "time"

const (
	lockTimeout = 10 * time.Second     // for other processes to release the lock, and for a document to be read or written
	pause       = time.Millisecond     // between two attempts
	yieldPause  = 5 * time.Millisecond // between two locks by one process, so that others can acquire it
)

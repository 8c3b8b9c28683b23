package pin

import "time"

const (
	lockTimeout = 10 * time.Second     // for waiting until other processes release the lock, and for reading or writing a document
	pause       = time.Millisecond     // between attempts
	yieldPause  = 5 * time.Millisecond // before the same process locks again, so that others can acquire the lock
)

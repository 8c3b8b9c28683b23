package toolyard

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

var callEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// callIDSize is how many bytes an id has: the milliseconds since 1970 in the first six, and
// chance in the others.
const callIDSize = 16

// NewCallID is an id for a call that begins now. Ids sort by time.
func NewCallID(now time.Time) string {
	var b [callIDSize]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // never fails
	return callEncoding.EncodeToString(b[:])
}

// CallTime is when the call with an id began, to the millisecond, if NewCallID made the id. It
// is false for one that it cannot have made.
func CallTime(id string) (at time.Time, ok bool) {
	b, err := callEncoding.DecodeString(id)
	if err != nil || len(b) != callIDSize {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:8]) >> 16)).UTC(), true
}

package record

import (
	"sync"

	"github.com/toolyard/toolyard/internal/store"
)

// queue is a ring buffer of rows to write. It grows up to a limit, after which a new row replaces
// the oldest.
type queue struct {
	bound int
	some  chan struct{} // receives a token when a row is added to an empty queue
	full  chan struct{} // receives a token when a full batch is queued

	mu   sync.Mutex
	ring []*store.CallRow
	head int // index of the oldest row
	n    int
}

func newQueue(bound int) *queue {
	return &queue{bound: bound, some: make(chan struct{}, 1), full: make(chan struct{}, 1)}
}

// push adds a row and reports whether it replaced the oldest one.
func (q *queue) push(row *store.CallRow) (dropped bool) {
	q.mu.Lock()
	if q.n == len(q.ring) && q.n < q.bound {
		q.grow()
	}
	if q.n == len(q.ring) {
		q.ring[q.head] = row
		q.head = (q.head + 1) % len(q.ring)
		dropped = true
	} else {
		q.ring[(q.head+q.n)%len(q.ring)] = row
		q.n++
	}
	n := q.n
	q.mu.Unlock()
	if n == 1 {
		signal(q.some)
	}
	if n == batchRows {
		signal(q.full)
	}
	return dropped
}

// waiting returns the number of queued rows.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}

// take moves up to limit of the oldest rows to batch. If rows remain, it sends a token for them.
func (q *queue) take(batch []*store.CallRow, limit int) []*store.CallRow {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range min(limit, q.n) {
		batch = append(batch, q.ring[q.head])
		q.ring[q.head] = nil
		q.head = (q.head + 1) % len(q.ring)
		q.n--
	}
	if q.n > 0 {
		signal(q.some)
	}
	return batch
}

func (q *queue) grow() {
	ring := make([]*store.CallRow, min(max(2*len(q.ring), batchRows), q.bound))
	n := copy(ring, q.ring[q.head:])
	copy(ring[n:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

package upstream

import (
	"context"

	"github.com/toolyard/toolyard"
)

// maxProgress is how much progress waits for a client that is slow to take it in. More is
// dropped: whoever reads what a server says must never wait for whoever reads what we say.
const maxProgress = 256

// relayed makes progress go its own way to a caller. Stop waits until what was said has
// arrived, or ctx ends.
func relayed(ctx context.Context, send func(toolyard.Progress)) (post func(toolyard.Progress), stop func()) {
	waiting, done, sent := make(chan toolyard.Progress, maxProgress), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		for {
			select {
			case p := <-waiting:
				send(p)
				continue
			default:
			}
			select {
			case p := <-waiting:
				send(p)
			case <-done:
				if len(waiting) == 0 {
					return
				}
			}
		}
	}()
	post = func(p toolyard.Progress) {
		select {
		case waiting <- p:
		default:
		}
	}
	return post, func() {
		close(done)
		select {
		case <-sent:
		case <-ctx.Done():
		}
	}
}

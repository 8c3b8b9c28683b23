package upstream

import (
	"context"

	"github.com/toolyard/toolyard"
)

// maxProgress bounds the progress buffered for a slow client. More is dropped: reading from the
// server must never wait for a client.
const maxProgress = 256

// bufferProgress decouples progress from the goroutine that reads from the server. Stop waits
// until buffered progress is sent, or ctx ends.
func bufferProgress(ctx context.Context, send func(toolyard.Progress)) (post func(toolyard.Progress), stop func()) {
	buffer, stopping, sent := make(chan toolyard.Progress, maxProgress), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		for {
			select {
			case p := <-buffer:
				send(p)
				continue
			default:
			}
			select {
			case p := <-buffer:
				send(p)
			case <-stopping:
				if len(buffer) == 0 {
					return
				}
			}
		}
	}()
	post = func(p toolyard.Progress) {
		select {
		case buffer <- p:
		default:
		}
	}
	return post, func() {
		close(stopping)
		select {
		case <-sent:
		case <-ctx.Done():
		}
	}
}

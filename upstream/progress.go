package upstream

import "context"

// progress is a progress report from a server.
type progress struct {
	done, total float64
	message     string
}

// maxProgress limits how many reports are buffered for a slow client. The rest are dropped, because
// reading from the server must never wait for a client.
const maxProgress = 256

// bufferProgress decouples progress from the goroutine that reads from the server. Stop waits
// until buffered progress is sent, or ctx ends.
func bufferProgress(ctx context.Context, send func(done, total float64, message string)) (post func(done, total float64, message string), stop func()) {
	buffer, stopping, sent := make(chan progress, maxProgress), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		for {
			select {
			case p := <-buffer:
				send(p.done, p.total, p.message)
				continue
			default:
			}
			select {
			case p := <-buffer:
				send(p.done, p.total, p.message)
			case <-stopping:
				if len(buffer) == 0 {
					return
				}
			}
		}
	}()
	post = func(done, total float64, message string) {
		select {
		case buffer <- progress{done, total, message}:
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

package toolyard

import "sync"

// ResourceWatchers notifies clients that watch a source's resources. Set [Resource.Watch] to its
// Watch method, and call Changed whenever a resource's content has changed. The zero value is ready
// to use. It is safe for concurrent use.
type ResourceWatchers struct {
	mu       sync.Mutex
	watchers map[string]map[*watcher]struct{} // keyed by URI
}

type watcher struct{ changed func() }

// Watch calls changed after each change of the resource at uri, until stop is called.
func (w *ResourceWatchers) Watch(uri string, changed func()) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers == nil {
		w.watchers = make(map[string]map[*watcher]struct{})
	}
	if w.watchers[uri] == nil {
		w.watchers[uri] = make(map[*watcher]struct{})
	}
	added := &watcher{changed}
	w.watchers[uri][added] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.watchers[uri], added); len(w.watchers[uri]) == 0 {
			delete(w.watchers, uri)
		}
	}
}

// Changed reports that the content of the resource at uri has changed. It does nothing if the
// resource is not watched, so a source can call it for every change.
func (w *ResourceWatchers) Changed(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for watching := range w.watchers[uri] {
		watching.changed()
	}
}

// Watched reports whether the resource at uri is watched.
func (w *ResourceWatchers) Watched(uri string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watchers[uri]) > 0
}

package fakehome

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func (h *Home) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/websocket", h.serveWebSocket)
	rest := func(pattern string, serve func(http.ResponseWriter, *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.requests = appendRecent(h.requests, r.Method+" "+r.URL.Path)
			if r.Header.Get("Authorization") != "Bearer "+Token || h.faults.rejectAuth {
				http.Error(w, "401: Unauthorized", http.StatusUnauthorized)
				return
			}
			serve(w, r)
		})
	}
	rest("GET /api/{$}", func(w http.ResponseWriter, _ *http.Request) { reply(w, object{"message": "API running."}) })
	rest("GET /api/config", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, object{"version": version, "location_name": "Fake home"})
	})
	rest("GET /api/states", func(w http.ResponseWriter, _ *http.Request) { reply(w, h.allStates()) })
	rest("GET /api/states/{id}", func(w http.ResponseWriter, r *http.Request) {
		st := h.world.states[r.PathValue("id")]
		if st == nil {
			w.WriteHeader(http.StatusNotFound)
			reply(w, object{"message": "Entity not found."})
			return
		}
		reply(w, st.full())
	})
	rest("GET /api/camera_proxy/{id}", h.serveCamera)
	rest("POST /api/services/{domain}/{service}", h.serveService)
	return mux
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (h *Home) serveCamera(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !strings.HasPrefix(id, "camera.") || h.world.states[id] == nil {
		http.NotFound(w, r)
		return
	}
	width, err := strconv.Atoi(r.URL.Query().Get("width"))
	if err != nil || width < 1 || width > 4096 {
		width = 640
	}
	picture := image.NewRGBA(image.Rect(0, 0, width, width*9/16))
	for x := range width {
		for y := range width * 9 / 16 {
			picture.Set(x, y, color.RGBA{uint8(x), uint8(y), 120, 255})
		}
	}
	var b bytes.Buffer
	_ = jpeg.Encode(&b, picture, nil) // writing to a buffer cannot fail
	w.Header().Set("Content-Type", "image/jpeg")
	b.Write(make([]byte, h.faults.picture))
	_, _ = w.Write(b.Bytes())
}

func (h *Home) serveService(w http.ResponseWriter, r *http.Request) {
	var data object
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if len(body) > 0 && json.Unmarshal(body, &data) != nil {
		http.Error(w, "Data should be valid JSON.", http.StatusBadRequest)
		return
	}
	before := maps.Clone(h.world.states)
	if err := h.call(r.PathValue("domain"), r.PathValue("service"), data, newContext(""), false); err != nil {
		http.Error(w, "400: Bad Request", http.StatusBadRequest)
		return
	}
	changed := []object{}
	for id, st := range h.world.states {
		if before[id] != st {
			changed = append(changed, st.full())
		}
	}
	reply(w, changed)
}

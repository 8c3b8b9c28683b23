package api

// Routes are the methods and paths that are served.
func Routes() (list []string) {
	for _, r := range newV1(Options{}).routes() {
		list = append(list, r.method+" "+prefix+r.path)
	}
	return list
}

// DecodeExecute reads the body of a call, as the API does.
func DecodeExecute(data []byte) (tool string, args []byte, err error) {
	var body executeBody
	err = decode(data, &body)
	return body.Tool, body.Args, err
}

// ReadCursor reads a query string with a cursor, and writes the cursor again.
func ReadCursor(query string) (text string, err error) {
	p := readParams(query, "before")
	c := p.cursor("before")
	if p.err != nil || c.At.IsZero() {
		return "", p.err
	}
	return cursorText(c.At, c.ID), nil
}

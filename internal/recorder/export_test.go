package recorder

// Narrow makes a cassette that was not read yet hold no more than so many bytes
// of its lines.
func Narrow(c *Cassette, bytes int) { c.window = &window{limit: bytes} }

// Holding counts the interactions that a walked cassette holds, and the bytes of
// lines that were read again since its limit last grew.
func Holding(c *Cassette) (held, requests, again int) {
	for i := range c.heads {
		if !c.heads[i].gone {
			held++
		}
	}
	return held, len(c.rebuilt.requests), c.window.again
}

// Strays counts the requests that are held of interactions that were given up.
func Strays(c *Cassette) int {
	n := 0
	for id := range c.rebuilt.requests {
		if c.heads[id].gone {
			n++
		}
	}
	return n
}

package ledger

import (
	"bytes"
	"slices"
)

// member is the extent of one object member in the output.
type member struct{ start, colon, end int }

// maxMoved is how many members change places one by one. What clients send has
// few members to an object, and the one out of place is the small one beside a
// large one, so that little is copied.
const maxMoved = 16

// sort puts the members with which the output ends in order, and keeps the last of
// repeated names.
func (c *canoniser) sort(members []member) {
	if len(members) > maxMoved {
		c.sortMany(members)
		return
	}
	repeated := false
	for i := 1; i < len(members); i++ {
		name := c.nameOf(members[i])
		at := i
		for ; at > 0; at-- {
			order := bytes.Compare(c.nameOf(members[at-1]), name)
			repeated = repeated || order == 0
			if order <= 0 {
				break
			}
		}
		if at < i {
			c.moveUp(members[at : i+1])
		}
	}
	if repeated {
		c.sortMany(members)
	}
}

func (c *canoniser) nameOf(m member) []byte { return nameOf(c.dst[m.start:m.colon]) }

// moveUp moves the last of the members before the others. The shorter side is set
// aside.
func (c *canoniser) moveUp(members []member) {
	n := len(members) - 1
	m, start := members[n], members[0].start
	others, one := c.dst[start:members[n-1].end], c.dst[m.start:m.end]
	shift := len(one) + len(",")
	if len(others) < len(one) {
		c.spare = append(c.spare[:0], others...)
		copy(c.dst[start:], one)
		copy(c.dst[start+shift:], c.spare)
	} else {
		c.spare = append(c.spare[:0], one...)
		copy(c.dst[start+shift:], others)
		copy(c.dst[start:], c.spare)
	}
	c.dst[start+len(one)] = ','
	for i := n; i > 0; i-- {
		p := members[i-1]
		members[i] = member{p.start + shift, p.colon + shift, p.end + shift}
	}
	members[0] = member{start, start + m.colon - m.start, start + len(one)}
}

// sortMany is sort by way of a copy.
func (c *canoniser) sortMany(members []member) {
	open := members[0].start
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(c.nameOf(a), c.nameOf(b)) })
	out := c.spare[:0]
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(c.nameOf(m), c.nameOf(members[i+1])) {
			continue
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, c.dst[m.start:m.end]...)
	}
	c.spare, c.dst = out, append(c.dst[:open], out...)
}

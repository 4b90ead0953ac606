package report

import "strings"

// Column is one column of a table.
type Column struct {
	Head string
	Min  int // columns of the terminal that it keeps when there is little room
	Max  int // columns that it takes at most
}

// Table writes untrusted cells in columns, one row a line. A row that has fewer
// cells than there are columns ends in a text of any length. On a terminal the
// columns give up room, the last ones first, until a line fits; in a pipe every
// one has up to its Max.
func (p *Printer) Table(columns []Column, rows [][]string) {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = widthOf(c.Head)
	}
	clean := make([][]string, len(rows))
	for r, row := range rows {
		clean[r] = make([]string, len(row))
		for i, cell := range row {
			clean[r][i] = Clean(cell)
			if whole := len(row) == len(columns); whole || i < len(row)-1 {
				widths[i] = min(max(widths[i], widthOf(clean[r][i])), columns[i].Max)
			}
		}
	}
	if !p.piped {
		p.narrow(columns, widths)
	}
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.Head
	}
	p.Line(Bold, "%s", p.row(head, widths))
	for _, row := range clean {
		p.Line(Plain, "%s", p.row(row, widths))
	}
}

const gap = "  "

// narrow takes room from columns until they fit.
func (p *Printer) narrow(columns []Column, widths []int) {
	over := (len(widths)-1)*len(gap) - p.width
	for _, w := range widths {
		over += w
	}
	for i := len(widths) - 1; i >= 0 && over > 0; i-- {
		take := min(over, max(widths[i]-columns[i].Min, 0))
		widths[i], over = widths[i]-take, over-take
	}
}

// row lays out cleaned cells.
func (p *Printer) row(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		room := widths[i]
		if i == len(cells)-1 && len(cells) < len(widths) {
			room = max(p.width-widthOf(b.String()), room)
		}
		cell = Shorten(cell, room)
		b.WriteString(cell)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", max(room-widthOf(cell), 0)) + gap)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

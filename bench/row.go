package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Units of quantities.
const (
	nanoseconds = "ns"
	bytesUnit   = "B"
	percent     = "%"
	perSecond   = "calls/s" // the more the better: a ratio is ours by theirs
	callsUnit   = "calls"
)

// quantity is a measured number.
type quantity struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

func took(d time.Duration) quantity { return quantity{float64(d), nanoseconds} }

func weighs[N int | int64](n N) quantity { return quantity{float64(n), bytesUnit} }

func counted(n int) quantity { return quantity{float64(n), callsUnit} }

func (q quantity) String() string {
	switch q.Unit {
	case nanoseconds:
		return duration(time.Duration(q.Value))
	case bytesUnit:
		return size1000(q.Value)
	case perSecond, callsUnit:
		return fmt.Sprintf("%.0f %s", q.Value, q.Unit)
	}
	return fmt.Sprintf("%.2f %s", q.Value, q.Unit)
}

func duration(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d >= 10*time.Microsecond:
		return d.Round(100 * time.Nanosecond).String()
	}
	return d.String()
}

func size1000(n float64) string {
	for _, unit := range []string{"B", "KB", "MB"} {
		if n < 1000 {
			return fmt.Sprintf("%.3g %s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g GB", n)
}

// row is one line of the table.
type row struct {
	Section string    `json:"section"`
	What    string    `json:"what"`
	Ours    quantity  `json:"ours"`
	Against string    `json:"against,omitempty"` // what it is compared with
	Theirs  *quantity `json:"theirs,omitempty"`
	Ratio   float64   `json:"ratio,omitempty"`
	Most    float64   `json:"most,omitempty"`         // the ratio ours by theirs shall not exceed it
	Least   float64   `json:"least,omitempty"`        // the ratio theirs by ours (of rates: ours by theirs) shall not stay below it
	Inverse bool      `json:"inverse,omitempty"`      // the ratio is theirs by ours, as where least is set
	Limit   *quantity `json:"limit,omitempty"`        // what ours alone shall not exceed
	Missing string    `json:"not_measured,omitempty"` // why there is no figure; such a row is never ok
	OK      bool      `json:"ok"`
	Repeat  string    `json:"repeat"`
}

// versus makes a row with a comparison. One of most and least is set at most.
func versus(what string, ours quantity, against string, theirs quantity, most, least float64) row {
	return row{What: what, Ours: ours, Against: against, Theirs: &theirs, Most: most, Least: least}
}

// faster makes a row of theirs by ours, without a target.
func faster(what string, ours quantity, against string, theirs quantity) row {
	return row{What: what, Ours: ours, Against: against, Theirs: &theirs, Inverse: true}
}

// paired makes a row of figures that were measured side by side, round by round:
// the ratio is the middle one of the rounds' ratios.
func paired(what, unit string, ours figures, against string, theirs figures, most, least float64) row {
	r := versus(what, quantity{ours.middle(), unit}, against, quantity{theirs.middle(), unit}, most, least)
	r.Ratio = ours.by(theirs).middle()
	return r
}

// within makes a row that holds a figure against a limit.
func within(what string, ours, limit quantity) row {
	return row{What: what, Ours: ours, Limit: &limit}
}

// judged fills in the ratio and the judgement.
func (r row) judged() row {
	switch {
	case r.Missing != "":
		r.OK = false
		return r
	case r.Limit != nil:
		r.OK = r.Ours.Value <= r.Limit.Value
		return r
	case r.Theirs == nil:
		r.OK = true
		return r
	}
	r.Inverse = (r.Least > 0 || r.Inverse) && r.Ours.Unit != perSecond
	switch {
	case r.Ratio > 0: // it was measured
	case r.Inverse:
		r.Ratio = r.Theirs.Value / r.Ours.Value
	default:
		r.Ratio = r.Ours.Value / r.Theirs.Value
	}
	r.OK = r.Ratio >= r.Least && (r.Most == 0 || r.Ratio <= r.Most)
	return r
}

func (r row) target() string {
	switch {
	case r.Limit != nil:
		return "≤ " + r.Limit.String()
	case r.Least > 0:
		return fmt.Sprintf("≥ %g ×", r.Least)
	case r.Most > 0:
		return fmt.Sprintf("≤ %g ×", r.Most)
	}
	return "none"
}

func (r row) verdict() string {
	switch {
	case r.Missing != "":
		return "NOT MEASURED"
	case !r.OK:
		return "MISSED"
	case r.target() == "none":
		return "–"
	}
	return "ok"
}

func (r row) cells() []string {
	ours, theirs, ratio := r.Ours.String(), "–", "–"
	if r.Missing != "" {
		ours = "not measured: " + r.Missing
	}
	if r.Theirs != nil {
		theirs = r.Theirs.String()
		ratio = fmt.Sprintf("%.3g ×", r.Ratio)
		if r.Ratio >= 1000 {
			ratio = fmt.Sprintf("%.0f ×", r.Ratio)
		}
	}
	return []string{r.What, ours, cmp.Or(r.Against, "–"), theirs, ratio, r.target(), r.verdict()}
}

func header() []string {
	return []string{"what", "ours", "compared with", "theirs", "ratio", "target", "result"}
}

// table prints rows by section, each section with the command that repeats it.
func table(out io.Writer, rows []row) error {
	lines := [][]string{header()}
	for _, r := range rows {
		lines = append(lines, r.cells())
	}
	widths := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for i, cells := range lines {
		if i > 0 && (i == 1 || rows[i-1].Section != rows[i-2].Section) {
			fmt.Fprintf(&b, "\n%s\n", rows[i-1].Repeat)
		}
		for k, c := range cells {
			b.WriteString(c + strings.Repeat(" ", widths[k]-utf8.RuneCountInString(c)+2))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func markdown(out io.Writer, rows []row) error {
	head := append(header(), "repeat")
	lines := []string{"| " + strings.Join(head, " | ") + " |", "|" + strings.Repeat("---|", len(head))}
	for _, r := range rows {
		lines = append(lines, "| "+strings.Join(append(r.cells(), "`"+r.Repeat+"`"), " | ")+" |")
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

package rule

import (
	"strconv"
	"testing"
)

// seriesOf makes a series of one sample a minute.
func seriesOf(metric string, values ...float64) series {
	s := series{metric: metric}
	for i, v := range values {
		at := minute * moment(i+1)
		s.samples = append(s.samples, sample{at: at, time: parseNode([]byte(strconv.Quote(at.String()))), v: v, number: parseNode([]byte(strconv.FormatFloat(v, 'g', -1, 64)))})
	}
	return s
}

func TestFindOnset(t *testing.T) {
	over := func(started int, value, threshold float64) alert {
		return alert{started: moment(started) * minute, value: value, threshold: threshold, bounded: true}
	}
	for name, tt := range map[string]struct {
		series series
		alert  alert
		want   int // -1 for none
		open   bool
	}{
		"rise":                         {seriesOf("latency", 1, 1, 1, 9, 9), over(4, 9, 5), 3, false},
		"fall":                         {seriesOf("availability", 100, 100, 91, 93), over(3, 91, 99), 2, false},
		"an earlier episode is left":   {seriesOf("latency", 1, 9, 1, 1, 9, 8), over(5, 9, 5), 4, false},
		"alert late: back to the rise": {seriesOf("latency", 1, 1, 9, 9, 9, 9), over(5, 9, 5), 2, false},
		"bad from the beginning":       {seriesOf("latency", 9, 9, 9), over(2, 9, 5), 0, true},
		"never bad":                    {seriesOf("latency", 1, 1, 1), over(2, 9, 5), -1, false},
		"bad only long before":         {seriesOf("latency", 9, 1, 1, 1, 1), over(5, 9, 5), -1, false},
		"one sample":                   {seriesOf("latency", 9), over(1, 9, 5), 0, true},
		"no samples":                   {series{}, over(1, 9, 5), -1, false},
		"no threshold: rise":           {seriesOf("latency", 10, 11, 10, 30, 31), alert{}, 3, false},
		"no threshold: fall":           {seriesOf("requests", 10, 11, 10, 3, 2), alert{}, 3, false},
		"no threshold: noise":          {seriesOf("latency", 10, 11, 10, 11, 10), alert{}, -1, false},
		"no threshold: flat":           {seriesOf("latency", 5, 5, 5, 5), alert{}, -1, false},
		"no threshold: from zero":      {seriesOf("errors", 0, 0, 0, 4, 5), alert{}, 3, false},
		"a counter: its rate":          {seriesOf("errors_total", 10, 11, 12, 13, 33, 53, 73), alert{}, 4, false},
		"a steady counter":             {seriesOf("requests_total", 10, 20, 30, 40, 50, 60), alert{}, -1, false},
		"beyond all range":             {seriesOf("latency", 1e300, 1, 1e300, 1, 1e300), alert{}, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := tt.series.findOnset(tt.alert)
			if !o.found {
				o.index = -1
			}
			if o.index != tt.want || o.open != tt.open {
				t.Errorf("onset %+v, expected at %d, open %v", o, tt.want, tt.open)
			}
		})
	}
}

func TestDeviates(t *testing.T) {
	for name, tt := range map[string]struct {
		series         series
		since          int
		found, unknown bool
	}{
		"rise":                   {seriesOf("latency", 1, 1, 1, 3, 3), 4, true, false},
		"small rise":             {seriesOf("latency", 10, 10, 10, 12, 12), 4, false, false},
		"was as bad before":      {seriesOf("latency", 1, 9, 1, 1, 3, 3), 5, false, false},
		"latency falls":          {seriesOf("latency", 9, 9, 9, 1, 1), 4, false, false},
		"availability falls":     {seriesOf("availability", 100, 100, 80, 75), 3, true, false},
		"availability rises":     {seriesOf("availability", 80, 80, 100, 100), 3, false, false},
		"nothing before":         {seriesOf("latency", 3, 3), 1, false, true},
		"nothing since":          {seriesOf("latency", 3, 3), 9, false, true},
		"one before, one since":  {seriesOf("latency", 1, 3), 2, true, false},
		"no samples, no summary": {series{}, 1, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := tt.series.deviates(moment(tt.since) * minute)
			if d.found != tt.found || d.unknown != tt.unknown {
				t.Errorf("found %v unknown %v, expected %v %v", d.found, d.unknown, tt.found, tt.unknown)
			}
		})
	}
}

func TestSummaryDeviates(t *testing.T) {
	read := func(text string) series {
		all := readSeries(answer{body: parseNode([]byte(text)), address: "E4"})
		if len(all) != 1 {
			t.Fatalf("%d series in %s", len(all), text)
		}
		return all[0]
	}
	at := func(m int) string { return (moment(m) * minute).String() }
	rise := read(`{"metrics":[{"metric":"latency","change":{"at":"` + at(9) + `","before":1,"after":5}}]}`)
	if d := rise.deviates(9 * minute); !d.found || rise.address(d.from) != "E4#/metrics/0/change" {
		t.Errorf("change of level: %+v", d)
	}
	if d := rise.deviates(20 * minute); d.found {
		t.Errorf("a change long before counts: %+v", d)
	}
	peak := read(`{"metrics":[{"metric":"latency","first":{"t":"` + at(1) + `","v":1},"max":{"t":"` + at(9) + `","v":5},"min":{"t":"` + at(2) + `","v":1}}]}`)
	if d := peak.deviates(8 * minute); !d.found {
		t.Errorf("extreme: %+v", d)
	}
	full := read(`{"metrics":[{"metric":"cpu","unit":"percent","first":{"t":"` + at(1) + `","v":70},"max":{"t":"` + at(9) + `","v":100}}]}`)
	if d := full.full(8 * minute); !d.found {
		t.Errorf("used up: %+v", d)
	}
	if d := full.full(10 * minute); d.found {
		t.Errorf("used up before: %+v", d)
	}
}

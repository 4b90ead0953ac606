package rule

import (
	"testing"
	"time"
)

func TestMomentAgreesWithTime(t *testing.T) {
	for _, text := range []string{
		"1970-01-01T00:00:01Z", "2026-03-10T02:03:14Z", "2026-03-10T02:03:14.092Z", "2024-02-29T23:59:59Z", "1900-02-28T12:00:00Z",
		"2000-12-31T23:59:59.999999Z", "2023-01-29T17:21:04+08:00", "2023-01-29T17:21:04-03:30", "1969-12-31T23:59:59Z", "9999-12-31T00:00:00Z", "0001-01-01T00:00:00Z",
	} {
		want, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		got := parseMoment(text)
		if int64(got) != want.UnixMicro() {
			t.Errorf("parseMoment(%q) = %d, expected %d", text, got, want.UnixMicro())
		}
		if s := want.UTC().Truncate(time.Second).Format(time.RFC3339); got.String() != s {
			t.Errorf("%q is written %q, expected %q", text, got, s)
		}
	}
}

func TestMomentRefuses(t *testing.T) {
	for _, text := range []string{"", "yesterday", "2026-03-10", "2026-13-10T02:03:14Z", "2026-03-10T02:03:14", "2026-03-10T02:03:14+0800", "2026-03-10T02:0x:14Z", "2026-03-10T02:03:14.5"} {
		if got := parseMoment(text); got != 0 {
			t.Errorf("parseMoment(%q) = %d, expected the unknown moment", text, got)
		}
	}
}

// Whatever can be written can be read again; nothing panics.
func FuzzMoment(f *testing.F) {
	f.Add("2026-03-10T02:03:14.092Z", int64(1773108194000000))
	f.Fuzz(func(t *testing.T, text string, n int64) {
		parseMoment(text)
		m := moment(n)
		if m < moment(civilDays(1, 1, 1))*day || m >= moment(civilDays(9999, 12, 31))*day {
			_ = m.String()
			return
		}
		whole := m - ((m%second)+second)%second
		if got := parseMoment(m.String()); got != whole {
			t.Errorf("%d is written %q and read as %d", n, m, got)
		}
	})
}

package rule

// moment is a time in microseconds since 1970, UTC. The zero moment is taken
// for "unknown"; nothing this package looks at happened in that microsecond.
type moment int64

const (
	second moment = 1_000_000
	minute        = 60 * second
	hour          = 60 * minute
	day           = 24 * hour
)

// parseMoment reads RFC 3339, with or without a fraction, in UTC or with an
// offset. Anything else is the unknown moment.
func parseMoment[T ~string | ~[]byte](s T) moment {
	if len(s) < 20 || s[4] != '-' || s[7] != '-' || s[10]|0x20 != 't' || s[13] != ':' || s[16] != ':' {
		return 0
	}
	year, ok1 := digits(s[0:4])
	month, ok2 := digits(s[5:7])
	dom, ok3 := digits(s[8:10])
	hh, ok4 := digits(s[11:13])
	mm, ok5 := digits(s[14:16])
	ss, ok6 := digits(s[17:19])
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || month < 1 || month > 12 || dom < 1 || dom > 31 || hh > 24 || mm > 59 || ss > 60 {
		return 0
	}
	m := moment(civilDays(year, month, dom))*day + moment(hh)*hour + moment(mm)*minute + moment(ss)*second
	fraction, rest := fractionOf(s[19:])
	offset, ok := zoneOf(rest)
	if !ok {
		return 0
	}
	return m + fraction - offset
}

func digits[T ~string | ~[]byte](s T) (int, bool) {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// fractionOf reads ".114" and returns what follows it.
func fractionOf[T ~string | ~[]byte](s T) (moment, T) {
	if len(s) == 0 || s[0] != '.' {
		return 0, s
	}
	value, scale, i := moment(0), second/10, 1
	for ; i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
		value += moment(s[i]-'0') * scale
		scale /= 10
	}
	return value, s[i:]
}

func zoneOf[T ~string | ~[]byte](s T) (moment, bool) {
	if len(s) == 1 && s[0]|0x20 == 'z' {
		return 0, true
	}
	if len(s) != 6 || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return 0, false
	}
	hh, ok1 := digits(s[1:3])
	mm, ok2 := digits(s[4:6])
	offset := moment(hh)*hour + moment(mm)*minute
	if s[0] == '-' {
		offset = -offset
	}
	return offset, ok1 && ok2
}

// civilDays counts the days from 1970-01-01 in the Gregorian calendar. Years
// begin in March here, so that the leap day is the last of its year.
func civilDays(year, month, dom int) int {
	if month <= 2 {
		year--
		month += 12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + dom - 1 - 719468
}

// String returns RFC 3339 in UTC, without the fraction.
func (m moment) String() string {
	days, rest := int(m/day), m%day
	if rest < 0 {
		days, rest = days-1, rest+day
	}
	year, month, dom := civil(days)
	b := make([]byte, 0, 20)
	b = append(pad(b, year, 4), '-')
	b = append(pad(b, month, 2), '-')
	b = append(pad(b, dom, 2), 'T')
	b = append(pad(b, int(rest/hour), 2), ':')
	b = append(pad(b, int(rest%hour/minute), 2), ':')
	b = append(pad(b, int(rest%minute/second), 2), 'Z')
	return string(b)
}

// civil is the inverse of civilDays for the years 0 to 9999. It starts from a
// year that is never too late before 1970 and a few years early after it.
func civil(days int) (year, month, dom int) {
	z := min(max(days, civilDays(0, 1, 1)), civilDays(9999, 12, 31))
	year = min(max(1970+z/366, 0), 9999)
	for year < 9999 && civilDays(year+1, 1, 1) <= z {
		year++
	}
	for year > 0 && civilDays(year, 1, 1) > z {
		year--
	}
	month = 12
	for month > 1 && civilDays(year, month, 1) > z {
		month--
	}
	return year, month, z - civilDays(year, month, 1) + 1
}

func pad(b []byte, n, width int) []byte {
	for scale := pow10(width - 1); scale > 0; scale /= 10 {
		b = append(b, byte('0'+n/scale%10))
	}
	return b
}

func pow10(n int) int {
	p := 1
	for range n {
		p *= 10
	}
	return p
}

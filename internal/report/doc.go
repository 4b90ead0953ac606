// Package report writes results for people: on a terminal, in plain text and
// as JSON. It decides wording and layout and nothing else; every fact comes
// from the packages below it.
//
// Whatever a model, a tool or a cassette from a stranger said passes Clean
// before it is printed, so that no text can move the cursor, change colours,
// hide itself by direction marks, or forge a line of our own output. There is
// no other way to print: a Printer takes untrusted text only as arguments.
//
// Colour is used on terminals alone and never when NO_COLOR is set. Without it
// the text reads the same.
package report

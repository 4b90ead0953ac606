package purity

import (
	"slices"
	"strings"
)

// Module is the module's path.
const Module = "investigator"

// Package is one pure package and what it may import beside std.
type Package struct {
	Name    string   // below internal/
	Layers  []string // packages of the project, below internal/
	Modules []string // third-party packages and further std packages
}

// Packages lists the pure packages, lowest first. A package may import those
// named in Layers and nothing else of the project.
func Packages() []Package {
	core := []string{"converse", "edge", "ledger", "verdict"}
	aboveLoop := slices.Concat(core, []string{"loop"})
	return []Package{
		{Name: "ledger"},
		{Name: "scrub", Modules: []string{"sync"}}, // OnceValue alone: patterns compiled on first use
		{Name: "converse", Layers: []string{"ledger"}},
		{Name: "verdict", Layers: []string{"ledger"}},
		{Name: "edge", Layers: []string{"converse", "ledger"}},
		{Name: "loop", Layers: core},
		{Name: "rule", Layers: aboveLoop}, // it reads the words the loop says to a model
		{Name: "price", Layers: aboveLoop, Modules: []string{"embed"}},
		{Name: "faults", Layers: aboveLoop, Modules: []string{"github.com/evanphx/json-patch/v5", "github.com/go-openapi/jsonpointer"}},
		{Name: "diff", Layers: aboveLoop, Modules: []string{"github.com/go-openapi/jsonpointer", "github.com/wI2L/jsondiff"}},
		{Name: "foreign", Layers: slices.Concat(aboveLoop, []string{"scrub"})},
	}
}

// Path is the package's import path.
func (p Package) Path() string { return Module + "/internal/" + p.Name }

// std are the packages of the standard library that any pure package may
// import: they compute and do nothing else, apart from the functions that Check
// refuses by name.
func std() []string {
	return []string{
		"bytes", "cmp", "container/heap", "container/list", "context", "crypto/sha256", "encoding", "encoding/base64", "encoding/binary", "encoding/hex",
		"encoding/json", "errors", "fmt", "hash", "hash/crc32", "io", "iter", "maps", "math", "math/big", "math/bits", "regexp",
		"slices", "sort", "strconv", "strings", "text/tabwriter", "unicode", "unicode/utf16", "unicode/utf8",
	}
}

// may says whether the package may import a path.
func (p Package) may(path string) bool {
	if inside, found := strings.CutPrefix(path, Module+"/internal/"); found {
		return slices.Contains(p.Layers, inside)
	}
	return slices.Contains(std(), path) || slices.Contains(p.Modules, path)
}

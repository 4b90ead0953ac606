package purity

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Exports returns an importer that reads the compiler's export data of the
// given packages and all they depend on. It runs "go list -export" in dir,
// which builds what is not in the build cache yet.
func Exports(dir string, patterns ...string) (types.ImporterFrom, error) {
	cmd := exec.Command("go", append([]string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}, patterns...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list export data: %w\n%s", err, stderr.Bytes())
	}
	files := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		path, file, _ := strings.Cut(lines.Text(), "\t")
		files[path] = file
	}
	lookup := func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no export data of %q: it does not build or no pure package needs it", path)
		}
		return os.Open(files[path])
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", lookup).(types.ImporterFrom), nil
}

// Violation is one place where a package crosses the line.
type Violation struct {
	Pos  token.Position
	Rule string // import, map range, goroutine, channel, context, print, write, directive, init or file
	Text string
}

// String is "file:line:column: rule: text".
func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Pos, v.Rule, v.Text) }

// Check reads the package in dir and lists what crosses the line. The error
// says that the package could not be judged: a missing folder, or source that
// does not compile.
func Check(dir string, p Package, imports types.Importer) ([]Violation, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("check package %s: %w", p.Name, err)
	}
	sources := map[string][]byte{}
	var violations []Violation
	for _, e := range entries {
		name := e.Name()
		switch ext := filepath.Ext(name); {
		case e.IsDir() || strings.HasSuffix(name, "_test.go"):
		case ext == ".go":
			if sources[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
				return nil, fmt.Errorf("check package %s: %w", p.Name, err)
			}
		case slices.Contains([]string{".c", ".h", ".s", ".S", ".cc", ".cpp", ".m", ".f", ".syso", ".swig"}, ext):
			violations = append(violations, Violation{token.Position{Filename: name}, "file", "a file that is not Go becomes part of the package"})
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("check package %s: no Go files in %s", p.Name, dir)
	}
	more, err := CheckSource(sources, p, imports)
	return append(violations, more...), err
}

// CheckSource is Check over source in memory, by file name. The violations are
// complete as far as the source could be understood, with an error too.
func CheckSource(sources map[string][]byte, p Package, imports types.Importer) ([]Violation, error) {
	fset := token.NewFileSet()
	var names []string
	for name := range sources {
		names = append(names, name)
	}
	slices.Sort(names)
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(fset, name, sources[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("check package %s: %w", p.Name, err)
		}
		files = append(files, f)
	}
	var first error
	conf := types.Config{Importer: imports, Error: func(err error) {
		if first == nil {
			first = fmt.Errorf("check package %s: %w", p.Name, err)
		}
	}}
	c := checker{fset: fset, may: p.may, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	_, _ = conf.Check(p.Path(), fset, files, c.info) // the first error is kept above
	for _, f := range files {
		c.file(f)
	}
	return c.found, first
}

package purity

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

type checker struct {
	fset  *token.FileSet
	info  *types.Info
	may   func(path string) bool
	found []Violation

	// allowed holds nodes that a form recognised further up has cleared.
	allowed map[ast.Node]bool
}

func (c *checker) report(n ast.Node, rule, format string, args ...any) {
	c.found = append(c.found, Violation{c.fset.Position(n.Pos()), rule, fmt.Sprintf(format, args...)})
}

func (c *checker) file(f *ast.File) {
	c.allowed = map[ast.Node]bool{}
	for _, spec := range f.Imports {
		if path, _ := strconv.Unquote(spec.Path.Value); !c.may(path) {
			c.report(spec, "import", "%q is not on this package's list", path)
		}
	}
	for _, group := range f.Comments {
		for _, line := range group.List {
			c.directive(line)
		}
	}
	for _, d := range f.Decls {
		c.declaration(d)
	}
	ast.Inspect(f, c.node)
}

func (c *checker) directive(line *ast.Comment) {
	text := line.Text
	switch {
	case strings.HasPrefix(text, "//go:embed "), strings.HasPrefix(text, "//go:generate "):
	case strings.HasPrefix(text, "//go:"), strings.HasPrefix(text, "// +build"), strings.HasPrefix(text, "//line "), strings.HasPrefix(text, "/*line "), strings.HasPrefix(text, "//export "):
		c.report(line, "directive", "%.40s", text)
	}
}

func (c *checker) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.Name == "init" {
			c.report(d, "init", "init runs before anyone asked for it")
		}
		if d.Body == nil {
			c.report(d, "file", "%s has its body elsewhere", d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for _, name := range v.Names {
				if obj := c.info.Defs[name]; obj != nil && isFunc(obj.Type()) {
					c.report(name, "write", "variable %s holds a function, which may hold state", name.Name)
				}
			}
		}
	}
}

func isFunc(t types.Type) bool {
	_, ok := t.Underlying().(*types.Signature)
	return ok
}

// node judges one node of the tree.
func (c *checker) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.report(n, "goroutine", "go statement")
	case *ast.SelectStmt:
		c.report(n, "channel", "select")
	case *ast.SendStmt:
		c.report(n, "channel", "send")
	case *ast.ChanType:
		c.report(n, "channel", "channel type")
	case *ast.UnaryExpr:
		c.unary(n)
	case *ast.BlockStmt:
		c.clearRanges(n.List)
	case *ast.CaseClause:
		c.clearRanges(n.Body)
	case *ast.RangeStmt:
		c.rangeOver(n)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			c.writes(n.Lhs...)
		}
	case *ast.IncDecStmt:
		c.writes(n.X)
	case *ast.CallExpr:
		c.call(n)
	case *ast.SelectorExpr:
		c.selector(n)
	case *ast.Ident:
		c.use(n)
	}
	return true
}

func (c *checker) unary(n *ast.UnaryExpr) {
	switch {
	case n.Op == token.ARROW:
		c.report(n, "channel", "receive")
	case n.Op == token.AND && c.packageVar(n.X) != nil:
		c.report(n, "write", "the address of %s is taken", c.packageVar(n.X).Name())
	}
}

func (c *checker) writes(targets ...ast.Expr) {
	for _, x := range targets {
		if v := c.packageVar(x); v != nil {
			c.report(x, "write", "package-level variable %s", v.Name())
		}
	}
}

// packageVar returns the package-level variable that an expression is, or is a
// part of; nil for all others.
func (c *checker) packageVar(x ast.Expr) *types.Var {
	switch x := x.(type) {
	case *ast.Ident:
		if v, ok := c.info.Uses[x].(*types.Var); ok && !v.IsField() && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
			return v
		}
	case *ast.SelectorExpr:
		if c.info.Selections[x] == nil {
			return c.packageVar(x.Sel) // another package's variable
		}
		return c.packageVar(x.X)
	case *ast.ParenExpr:
		return c.packageVar(x.X)
	case *ast.IndexExpr:
		return c.packageVar(x.X)
	case *ast.SliceExpr:
		return c.packageVar(x.X)
	case *ast.StarExpr:
		return c.packageVar(x.X)
	case *ast.TypeAssertExpr:
		return c.packageVar(x.X)
	}
	return nil
}

// call judges builtins that write or talk, and clears sorted map iterators.
func (c *checker) call(n *ast.CallExpr) {
	if name, ok := n.Fun.(*ast.Ident); ok {
		if _, builtin := c.info.Uses[name].(*types.Builtin); builtin {
			switch name.Name {
			case "delete", "clear", "copy":
				c.writes(n.Args[0])
			case "close":
				c.report(n, "channel", "close")
			}
		}
	}
	if c.isStd(n.Fun, "slices", "Sorted") && len(n.Args) == 1 {
		if inner, ok := n.Args[0].(*ast.CallExpr); ok && c.isStd(inner.Fun, "maps", "Keys", "Values") {
			c.allowed[ast.Unparen(inner.Fun)] = true
		}
	}
	if c.packageOf(n.Fun) == "fmt" {
		c.verbs(n)
	}
}

func (c *checker) verbs(n *ast.CallExpr) {
	for _, arg := range n.Args {
		if tv := c.info.Types[arg]; tv.Value != nil && strings.Contains(tv.Value.ExactString(), "%p") {
			c.report(arg, "print", "%%p prints an address")
		}
	}
}

// selector judges what is taken out of a package or a value.
func (c *checker) selector(n *ast.SelectorExpr) {
	if s := c.info.Selections[n]; s != nil {
		c.method(n, s)
		return
	}
	name := n.Sel.Name
	switch c.packageOf(n) {
	case "context":
		if name != "Context" {
			c.report(n, "context", "context.%s: only the type Context may be named", name)
		}
	case "fmt":
		if strings.HasPrefix(name, "Print") || slices.Contains([]string{"Scan", "Scanf", "Scanln"}, name) {
			c.report(n, "print", "fmt.%s", name)
		}
	case "iter":
		if strings.HasPrefix(name, "Pull") {
			c.report(n, "goroutine", "iter.%s", name)
		}
	case "maps":
		if slices.Contains([]string{"All", "Keys", "Values", "DeleteFunc", "EqualFunc"}, name) && !c.allowed[n] {
			c.report(n, "map range", "maps.%s comes in no order; slices.Sorted(maps.Keys(m)) does", name)
		}
	}
}

func (c *checker) method(n *ast.SelectorExpr, s *types.Selection) {
	fn, ok := s.Obj().(*types.Func)
	if !ok {
		return
	}
	if fn.Pkg() != nil && fn.Pkg().Path() == "context" {
		c.report(n, "context", "%s of a context depends on the clock", fn.Name())
	}
	recv := fn.Signature().Recv()
	if _, pointer := recv.Type().(*types.Pointer); pointer && s.Kind() == types.MethodVal {
		if v := c.packageVar(n.X); v != nil && !isPointer(c.info.Types[n.X].Type) {
			c.report(n, "write", "method %s may change package-level variable %s", fn.Name(), v.Name())
		}
	}
}

func isPointer(t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}

// use judges names that stand alone: builtins, and names of a dot import.
func (c *checker) use(n *ast.Ident) {
	if b, ok := c.info.Uses[n].(*types.Builtin); ok && (b.Name() == "print" || b.Name() == "println") {
		c.report(n, "print", "%s", b.Name())
	}
}

// packageOf is the path of the package that a qualified name is taken from.
func (c *checker) packageOf(x ast.Expr) string {
	s, ok := ast.Unparen(x).(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	name, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	if p, ok := c.info.Uses[name].(*types.PkgName); ok {
		return p.Imported().Path()
	}
	return ""
}

func (c *checker) isStd(x ast.Expr, path string, names ...string) bool {
	s, ok := ast.Unparen(x).(*ast.SelectorExpr)
	return ok && c.packageOf(s) == path && slices.Contains(names, s.Sel.Name)
}

package simulate

// This file draws figures of curves.

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"blankout/internal/event"
)

// Figure is a chart: one pair of axes with a legend next to it. A zero value with some Series is valid. Equal Figures
// are drawn as equal bytes.
type Figure struct {
	Title, X, Y string // titles of the chart and its axes, with units
	Series      []Series
	// If Categories is set, the X axis is not numeric, and Categories has the names of the positions 0, 1, ….
	Categories []string
	LogX, LogY bool // logarithmic axis; all numbers on it must be positive
	Marks      []Mark
	Width      float64 // in centimeters; 0 means 18
}

// Series is a line, points or bars with an entry in the legend.
type Series struct {
	Name string // "" hides it from the legend
	Form Form
	// If X is nil, the values are 0, 1, …. If a value of Y is not finite, there is a gap.
	X, Y []float64
	// Low and High are the bounds of the uncertainty of Y. They are drawn as a band around a line, or as whiskers on
	// points and bars. If they are nil, no bounds are drawn.
	Low, High []float64
	// Dashed draws the line dashed. It is for a reference, such as a limit or the result of a paper.
	Dashed bool
	// Color is an index into the palette, starting at 1. If it is 0, the next unused color of the Figure is used.
	// Related Series can have the same color.
	Color int
}

// Form is how a Series is drawn.
type Form int

// The forms of a Series.
const (
	Line     Form = iota // with a marker at each point
	BareLine             // without markers, for many points
	Points               // a scatter plot
	Bars                 // next to the bars of other Series
)

// Mark is a vertical line at X. It marks an event, such as a change of the stream.
type Mark struct {
	X    float64
	Name string
}

// palette is the palette of Okabe & Ito, which people with any kind of color vision can distinguish. It omits yellow,
// which is faint on white.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	{0x00, 0x9e, 0x73, 0xff}, // bluish green
	{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x56, 0xb4, 0xe9, 0xff}, // sky blue
	{0x00, 0x00, 0x00, 0xff}, // black
}

// glyphs distinguish series if they are printed without colors.
var glyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PyramidGlyph{}, draw.PlusGlyph{}, draw.RingGlyph{}}

var dashes = []vg.Length{vg.Points(5), vg.Points(3)}

// Save draws the Figure to base.png and base.svg. base is a path without an extension.
func (f *Figure) Save(base string) error {
	w, h := vg.Length(cmp.Or(f.Width, 18))*vg.Centimeter, 11*vg.Centimeter
	png := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(110))}
	for i, c := range []vg.CanvasWriterTo{png, vgsvg.New(w, h)} {
		path := base + []string{".png", ".svg"}[i]
		if err := f.draw(draw.NewCanvas(c, w, h)); err != nil {
			return fmt.Errorf("figure %s: %w", path, err)
		}
		err := writeFile(path, func(w io.Writer) error {
			_, err := c.WriteTo(w)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *Figure) draw(c draw.Canvas) error {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = event.Printable(f.Title), f.X, f.Y
	p.Title.Padding = vg.Points(6)
	p.X.Label.Padding, p.Y.Label.Padding = vg.Points(4), vg.Points(4)
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.Padding, legend.ThumbnailWidth = vg.Points(3), vg.Points(24)
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &legend.TextStyle} {
		style.Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(9))
	}
	p.Title.TextStyle.Font.Size = vg.Points(11)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{240}
	p.Add(grid)
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	if f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	if f.Categories != nil {
		categories := slices.Clone(f.Categories)
		for i, name := range categories {
			categories[i] = event.Printable(name)
		}
		p.NominalX(categories...)
		p.X.Min, p.X.Max = -0.5, float64(len(f.Categories))-0.5
		p.X.Padding = 0
		widest := 0
		for _, name := range categories {
			widest = max(widest, len([]rune(name)))
		}
		// A letter needs about 5 points, and about 400 are available.
		if 5*(widest+1)*len(categories) > 400 {
			p.X.Tick.Label.Rotation = math.Pi / 4
			p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YTop
		}
	}
	for i := range f.Series {
		if err := f.Series[i].check(f); err != nil {
			return err
		}
	}
	// Draw bands before lines, so that lines are visible.
	for i := range f.Series {
		if s := &f.Series[i]; s.Form == Line || s.Form == BareLine {
			for _, band := range s.bands() {
				area, err := plotter.NewPolygon(band)
				if err != nil {
					return err
				}
				shade := f.color(i)
				shade.A = 40
				area.Color, area.LineStyle.Width = shade, 0
				p.Add(area)
			}
		}
	}
	for i := range f.Series {
		if err := f.add(p, &legend, i); err != nil {
			return fmt.Errorf("series %q: %w", f.Series[i].Name, err)
		}
	}
	if f.LogY {
		room := math.Pow(p.Y.Max/p.Y.Min, 0.04)
		p.Y.Min, p.Y.Max = p.Y.Min/room, p.Y.Max*room
	} else {
		room := 0.04 * (p.Y.Max - p.Y.Min)
		if p.Y.Max += room; p.Y.Min < 0 || p.Y.Min > room {
			p.Y.Min -= room // an axis that starts at 0 starts exactly there
		}
	}
	if err := f.mark(p); err != nil {
		return err
	}
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, vg.Points(8), -vg.Points(10), vg.Points(8), -vg.Points(8))
	size := legend.Rectangle(c).Size()
	if size.X == 0 {
		p.Draw(draw.Crop(c, 0, -vg.Points(8), 0, 0))
		return nil
	}
	p.Draw(draw.Crop(c, 0, -size.X-vg.Points(14), 0, 0))
	legend.Draw(draw.Crop(c, c.Size().X-size.X, 0, 0, -vg.Points(18)))
	return nil
}

// color returns the color of Series i.
func (f *Figure) color(i int) color.NRGBA {
	n := f.Series[i].Color - 1
	if n < 0 {
		n = i
		for _, s := range f.Series[:i] {
			if s.Color > 0 {
				n--
			}
		}
	}
	return palette[n%len(palette)]
}

func (f *Figure) add(p *plot.Plot, legend *plot.Legend, i int) error {
	s, shade := &f.Series[i], f.color(i)
	glyph := draw.GlyphStyle{Color: shade, Radius: vg.Points(2.6), Shape: glyphs[i%len(glyphs)]}
	stroke := draw.LineStyle{Color: shade, Width: vg.Points(1.4)}
	if s.Dashed || i >= len(palette) && s.Color == 0 {
		stroke.Dashes = dashes
	}
	var thumbs []plot.Thumbnailer
	shift := 0.0
	switch s.Form {
	case Line, BareLine:
		for _, run := range s.runs() {
			line, err := plotter.NewLine(run)
			if err != nil {
				return err
			}
			line.LineStyle = stroke
			p.Add(line)
			thumbs = []plot.Thumbnailer{line}
		}
		if s.Form == BareLine {
			break
		}
		fallthrough
	case Points:
		for _, run := range s.runs() {
			points, err := plotter.NewScatter(run)
			if err != nil {
				return err
			}
			points.GlyphStyle = glyph
			p.Add(points)
			if len(thumbs) < 2 {
				thumbs = append(thumbs, points)
			}
		}
	case Bars:
		groups, at := 0, 0
		for j, other := range f.Series {
			if other.Form == Bars {
				if j < i {
					at++
				}
				groups++
			}
		}
		width := 0.8 / float64(groups)
		shift = width * (float64(at) - float64(groups-1)/2)
		b := bars{s, shade, width, shift}
		p.Add(b)
		thumbs = append(thumbs, b)
	}
	if s.Form == Points || s.Form == Bars {
		if err := s.whiskers(p, shift); err != nil {
			return err
		}
	}
	if s.Name != "" && len(thumbs) > 0 {
		legend.Add(event.Printable(s.Name), thumbs...)
	}
	return nil
}

// logTicks draws gonum's logarithmic ticks. If there would be almost no labels, it draws linear ticks.
type logTicks struct{}

func (logTicks) Ticks(low, high float64) []plot.Tick {
	if high/low < 10 {
		return plot.DefaultTicks{}.Ticks(low, high)
	}
	return plot.LogTicks{Prec: -1}.Ticks(low, high)
}

func (f *Figure) mark(p *plot.Plot) error {
	low, high := p.Y.Min, p.Y.Max
	for _, m := range f.Marks {
		line, err := plotter.NewLine(plotter.XYs{{X: m.X, Y: low}, {X: m.X, Y: high}})
		if err != nil {
			return fmt.Errorf("mark %q: %w", m.Name, err)
		}
		line.Color, line.Width, line.Dashes = color.Gray{90}, vg.Points(0.8), []vg.Length{vg.Points(2), vg.Points(2)}
		name, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: m.X, Y: high}}, Labels: []string{m.Name}})
		if err != nil {
			return err
		}
		name.Offset = vg.Point{X: vg.Points(3), Y: -vg.Points(10)}
		name.TextStyle[0].Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(8))
		name.TextStyle[0].Color = color.Gray{60}
		p.Add(line, name)
	}
	return nil
}

func (s *Series) check(f *Figure) error {
	n := len(s.Y)
	if s.X != nil && len(s.X) != n || s.Low != nil && len(s.Low) != n || len(s.Low) != len(s.High) {
		return fmt.Errorf("series %q: %d values at %d places with %d lower and %d upper bounds", s.Name, n, len(s.X), len(s.Low), len(s.High))
	}
	for i, y := range s.Y {
		x := s.x(i)
		if f.LogX && !(x > 0) || f.LogY && y <= 0 {
			return fmt.Errorf("series %q: (%g, %g) has no place on a logarithmic axis", s.Name, x, y)
		}
	}
	return nil
}

func (s *Series) x(i int) float64 {
	if s.X == nil {
		return float64(i)
	}
	return s.X[i]
}

// runs returns the points of each segment of the line. Gaps separate the segments.
func (s *Series) runs() []plotter.XYs {
	var all []plotter.XYs
	open := false
	for i, y := range s.Y {
		if !finite(y) || !finite(s.x(i)) {
			open = false
			continue
		}
		if !open {
			all, open = append(all, nil), true
		}
		all[len(all)-1] = append(all[len(all)-1], plotter.XY{X: s.x(i), Y: y})
	}
	return all
}

// bands returns the outline of the band of each segment that has bounds.
func (s *Series) bands() []plotter.XYs {
	var all []plotter.XYs
	var low, high plotter.XYs
	finish := func() {
		if len(low) > 1 {
			slices.Reverse(low)
			all = append(all, append(high, low...))
		}
		low, high = nil, nil
	}
	for i := range s.Low {
		if !finite(s.Low[i]) || !finite(s.High[i]) || !finite(s.x(i)) {
			finish()
			continue
		}
		low, high = append(low, plotter.XY{X: s.x(i), Y: s.Low[i]}), append(high, plotter.XY{X: s.x(i), Y: s.High[i]})
	}
	finish()
	return all
}

// whiskers draws the bounds as vertical lines, shifted horizontally by shift.
func (s *Series) whiskers(p *plot.Plot, shift float64) error {
	var points plotter.XYs
	var bounds plotter.YErrors
	for i := range s.Low {
		if finite(s.Low[i]) && finite(s.High[i]) && finite(s.x(i)) {
			points = append(points, plotter.XY{X: s.x(i) + shift, Y: s.Y[i]})
			bounds = append(bounds, struct{ Low, High float64 }{s.Y[i] - s.Low[i], s.High[i] - s.Y[i]})
		}
	}
	if len(points) == 0 {
		return nil
	}
	bars, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{points, bounds})
	if err != nil {
		return err
	}
	bars.Color, bars.Width, bars.CapWidth = color.Gray{70}, vg.Points(0.9), vg.Points(4)
	p.Add(bars)
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// bars draws a Series as bars. The width of the bars and their horizontal shift are in units of the X axis.
type bars struct {
	s            *Series
	shade        color.NRGBA
	width, shift float64
}

func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	zero := max(0, p.Y.Min) // valid also for a logarithmic axis
	for i, y := range b.s.Y {
		if !finite(y) {
			continue
		}
		left, right := toX(b.s.x(i)+b.shift-b.width/2), toX(b.s.x(i)+b.shift+b.width/2)
		low, high := toY(zero), toY(min(max(y, p.Y.Min), p.Y.Max))
		c.FillPolygon(b.shade, []vg.Point{{X: left, Y: low}, {X: left, Y: high}, {X: right, Y: high}, {X: right, Y: low}})
	}
}

func (b bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax = math.Inf(1), math.Inf(-1)
	for i, y := range b.s.Y {
		xmin, xmax = min(xmin, b.s.x(i)-0.5), max(xmax, b.s.x(i)+0.5)
		if finite(y) {
			ymin, ymax = min(ymin, y), max(ymax, y)
		}
	}
	return xmin, xmax, ymin, ymax
}

func (b bars) Thumbnail(c *draw.Canvas) {
	r := c.Rectangle
	c.FillPolygon(b.shade, []vg.Point{r.Min, {X: r.Min.X, Y: r.Max.Y}, r.Max, {X: r.Max.X, Y: r.Min.Y}})
}

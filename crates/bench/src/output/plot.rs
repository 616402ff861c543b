//! Charts as SVG: curves over a size, and grouped bars.
//!
//! Colours are those of Okabe and Ito, which people with any common colour blindness can tell apart. Curves
//! differ in dashes and marks too, and bars carry their numbers, so that charts can be read in black and
//! white.

use std::ops::Range;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::combinators::{BindKeyPoints, IntoLogRange};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{DashedPathElement, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{Cartesian2d, Circle, Color, IntoFont, RGBColor, SVGBackend, ShapeStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, FontTransform, TextStyle, WHITE};

/// Okabe and Ito's colours without yellow, which is too light for lines on white, and with grey for black, in
/// which bounds are drawn.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
];

/// Lengths of dashes and of the gaps between them, in pixels; `None` is an unbroken line.
const DASHES: [Option<(u32, u32)>; 4] = [None, Some((9, 4)), Some((2, 3)), Some((14, 5))];

const WIDTH: u32 = 860;
const HEIGHT: u32 = 460;
/// Width of the line and the mark before a name in the legend, in pixels.
const LEGEND_MARK_WIDTH: u32 = 60;
/// About the width of a letter in the legend, in pixels.
const LETTER_WIDTH: u32 = 9;
const TEXT_PIXELS: i32 = 16;
/// Height of the numbers on bars, in pixels.
const NUMBER_PIXELS: i32 = 10;
/// About the width of a digit of these numbers, in pixels.
const DIGIT_WIDTH: i32 = 6;
/// Least width of a bar, in pixels: its number, written upright, and a gap.
const BAR_WIDTH_MIN: u32 = 13;
/// Margin to the left and to the right of all bars, in pixels.
const BARS_SIDE: i32 = 30;

/// A named curve.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points, by ascending x.
    pub points: Vec<(f64, f64)>,
    /// Whether it is a bound for the other curves. Bounds are drawn in black, without marks.
    pub is_bound: bool,
}

/// Curves over a size; y starts at 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Curves {
    /// Title.
    pub title: String,
    /// Label of the x axis.
    pub x: String,
    /// Label of the y axis.
    pub y: String,
    /// The curves.
    pub series: Vec<Series>,
}

/// Groups of bars.
#[derive(Clone, PartialEq, Debug)]
pub struct Bars {
    /// Title.
    pub title: String,
    /// Names of the bars of each group.
    pub names: Vec<String>,
    /// Groups, each with its name and a value for every bar; NaN draws no bar.
    pub groups: Vec<(String, Vec<f64>)>,
}

type Drawing = Result<(), DrawingAreaErrorKind<std::io::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A chart of curves, as SVG.
pub fn curves(chart: &Curves) -> String {
    svg(WIDTH, HEIGHT, |root| draw_curves(chart, root))
}

/// Charts of curves, one below the other, as one SVG.
pub fn stacked(charts: &[Curves]) -> String {
    svg(WIDTH, HEIGHT * charts.len().max(1) as u32, |root| {
        let panels = root.split_evenly((charts.len().max(1), 1));
        charts.iter().zip(&panels).try_for_each(|(chart, panel)| draw_curves(chart, panel))
    })
}

/// A chart of grouped bars, as SVG, wide enough that each bar carries its number.
pub fn bars(chart: &Bars) -> String {
    let columns = (chart.names.len() * chart.groups.len()) as u32;
    // A fifth of each group is the gap to the next.
    let least = columns * BAR_WIDTH_MIN * 5 / 4 + 2 * BARS_SIDE as u32;
    svg(WIDTH.max(least), HEIGHT, |root| draw_bars(chart, root))
}

fn svg(width: u32, height: u32, draw: impl FnOnce(&Area<'_>) -> Drawing) -> String {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        let drawn = root.fill(&WHITE).and_then(|()| draw(&root)).and_then(|()| root.present());
        drawn.expect("drawing into memory does not fail");
    }
    text
}

fn text_style(pixels: i32) -> TextStyle<'static> {
    ("sans-serif", pixels).into_font().color(&BLACK)
}

fn draw_curves(chart: &Curves, area: &Area<'_>) -> Drawing {
    let (width, _) = area.dim_in_pixel();
    let letters = chart.series.iter().map(|series| series.name.len() as u32).max().unwrap_or(0);
    let legend_width = (LEGEND_MARK_WIDTH + LETTER_WIDTH * letters).clamp(150, width / 3);
    let (plot, legend) = area.split_horizontally(width - legend_width);
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let most = |pick: fn(&(f64, f64)) -> f64| points().map(pick).fold(0.0, f64::max);
    let least_x = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let (x_max, y_max) = (most(|point| point.0).max(1.0), most(|point| point.1).max(1e-9) * 1.05);
    let least_x = if least_x.is_finite() { least_x } else { 0.0 };
    let mut builder = ChartBuilder::on(&plot);
    builder
        .caption(&chart.title, text_style(TEXT_PIXELS + 4))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(78);
    // Sizes that span more than a decade are legible on a logarithmic axis only.
    if x_max > 10.0 * least_x && least_x > 0.0 {
        let x = least_x * 0.9..x_max * 1.1;
        let ticks = logarithmic_ticks(&x);
        let x = x.log_scale().with_key_points(ticks);
        draw_in(chart, builder.build_cartesian_2d(x, 0.0..y_max)?)?;
    } else {
        let margin = (x_max - least_x).max(x_max * 0.1) * 0.04;
        let x = (least_x - margin).max(0.0)..x_max + margin;
        draw_in(chart, builder.build_cartesian_2d(Whole(x.into()), 0.0..y_max)?)?;
    }
    draw_legend(chart, &legend)
}

fn draw_in<X>(
    chart: &Curves,
    mut context: ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, RangedCoordf64>>,
) -> Drawing
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let y_max = context.as_coord_spec().get_y_range().end;
    context
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc(&chart.x)
        .y_desc(&chart.y)
        .axis_desc_style(text_style(TEXT_PIXELS))
        .label_style(text_style(TEXT_PIXELS))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| if y_max > 10.0 { format!("{y:.0}") } else { format!("{y:.2}") })
        .draw()?;
    let area = context.plotting_area();
    for (number, series) in chart.series.iter().enumerate() {
        let style = Style::of(number, series);
        match style.dash {
            None => area.draw(&PathElement::new(series.points.clone(), style.line()))?,
            Some((dash, gap)) => {
                area.draw(&DashedPathElement::new(series.points.iter().copied(), dash, gap, style.line()))?;
            }
        }
        // Marks have their size in pixels, so they are drawn on the area without coordinates.
        let pixels = area.strip_coord_spec();
        let (left, top) = area.get_base_pixel();
        for point in &series.points {
            let (x, y) = area.map_coordinate(point);
            draw_mark(&pixels, style, (x - left, y - top))?;
        }
    }
    Ok(())
}

/// An axis with ticks at whole numbers.
struct Whole(RangedCoordf64);

impl Ranged for Whole {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.0.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { whole_ticks(&self.0.range()) }
    }

    fn range(&self) -> Range<f64> {
        self.0.range()
    }
}

/// Whole numbers in the range. The step between them is 1, 2 or 5 times a power of ten.
fn whole_ticks(range: &Range<f64>) -> Vec<f64> {
    /// Steps between labels of seven digits that fit beside each other.
    const STEPS_MAX: f64 = 8.0;
    let steps = (0..).flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)));
    let fits = |step: &f64| (range.end - range.start) / step <= STEPS_MAX;
    let step = steps.take(3 * 308).find(fits).expect("a step as large as any range");
    let first = (range.start / step).ceil();
    (0..=STEPS_MAX as u32)
        .map(|at| (first + f64::from(at)) * step)
        .filter(|tick| range.contains(tick))
        .collect()
}

/// 1, 2 and 5 times each power of ten in the range, from 1 on.
fn logarithmic_ticks(range: &Range<f64>) -> Vec<f64> {
    let decades = (range.start.log10().floor() as i32).max(0)..=range.end.log10().ceil() as i32;
    let ticks = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)));
    ticks.filter(|tick| range.contains(tick)).collect()
}

/// How a curve is drawn.
#[derive(Clone, Copy)]
struct Style {
    colour: RGBColor,
    dash: Option<(u32, u32)>,
    mark: usize,
}

impl Style {
    fn of(number: usize, series: &Series) -> Self {
        if series.is_bound {
            return Self { colour: BLACK, dash: None, mark: 0 };
        }
        // Consecutive curves differ in all three; combinations repeat after 140 curves.
        Self { colour: COLOURS[number % 7], dash: DASHES[number % 4], mark: 1 + number % 5 }
    }

    fn line(self) -> ShapeStyle {
        self.colour.stroke_width(2)
    }
}

fn draw_mark(area: &Area<'_>, style: Style, (x, y): (i32, i32)) -> Drawing {
    const R: i32 = 4;
    let (filled, line) = (style.colour.filled(), style.colour.stroke_width(2));
    match style.mark {
        0 => Ok(()),
        1 => area.draw(&Circle::new((x, y), R, filled)),
        2 => area.draw(&Rectangle::new([(x - R, y - R), (x + R, y + R)], filled)),
        3 => area.draw(&Polygon::new([(x, y - R - 1), (x + R + 1, y + R), (x - R - 1, y + R)], filled)),
        4 => {
            area.draw(&PathElement::new([(x - R, y - R), (x + R, y + R)], line))?;
            area.draw(&PathElement::new([(x - R, y + R), (x + R, y - R)], line))
        }
        _ => {
            area.draw(&Polygon::new([(x, y - R - 1), (x + R + 1, y), (x, y + R + 1), (x - R - 1, y)], filled))
        }
    }
}

/// The legend: the curves with the greatest sum of y values first.
fn draw_legend(chart: &Curves, area: &Area<'_>) -> Drawing {
    const ROW_PIXELS: i32 = 22;
    const TOP_PIXELS: i32 = 48;
    let mut order: Vec<usize> = (0..chart.series.len()).collect();
    let height = |number: &usize| chart.series[*number].points.iter().map(|point| point.1).sum::<f64>();
    order.sort_by(|a, b| height(b).total_cmp(&height(a)));
    for (row, number) in (0..).zip(order) {
        let (series, y) = (&chart.series[number], TOP_PIXELS + ROW_PIXELS * row);
        let style = Style::of(number, series);
        let line = [(4, y), (44, y)];
        match style.dash {
            None => area.draw(&PathElement::new(line, style.line()))?,
            Some((dash, gap)) => area.draw(&DashedPathElement::new(line, dash, gap, style.line()))?,
        }
        draw_mark(area, style, (24, y))?;
        let beside = text_style(TEXT_PIXELS).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(series.name.clone(), (52, y), beside))?;
    }
    Ok(())
}

fn draw_bars(chart: &Bars, area: &Area<'_>) -> Drawing {
    const BOTTOM_PIXELS: i32 = 64;
    let (width, height) = area.dim_in_pixel();
    let (width, height) = (width as i32, height as i32);
    let centred = |pixels, vertical| text_style(pixels).pos(Pos::new(HPos::Center, vertical));
    area.draw(&Text::new(chart.title.clone(), (width / 2, 10), centred(TEXT_PIXELS + 4, VPos::Top)))?;
    let below_names = draw_bar_names(chart, area)?;
    let most = chart.groups.iter().flat_map(|(_, values)| values).copied().fold(1e-9, f64::max);
    let base = height - BOTTOM_PIXELS;
    let group_width = (width - 2 * BARS_SIDE) / chart.groups.len().max(1) as i32;
    let bar_width = (group_width * 4 / 5) / chart.names.len().max(1) as i32;
    let numbers = Numbers::on(chart, bar_width);
    let highest = base - below_names - numbers.height;
    for (group, (name, values)) in (0..).zip(&chart.groups) {
        let begin = BARS_SIDE + group * group_width + group_width / 10;
        for (bar, value) in (0..).zip(values).filter(|(_, value)| !value.is_nan()) {
            let x = begin + bar * bar_width;
            let top = base - (value / most * f64::from(highest)) as i32;
            area.draw(&Rectangle::new([(x, top), (x + bar_width - 2, base)], bar_colour(bar).filled()))?;
            let middle = x + (bar_width - 2) / 2;
            area.draw(&Text::new(short(*value), (middle, top - 2), numbers.style.clone()))?;
        }
        // Names of more than 12 bytes take two lines, cut after the hyphen nearest the middle.
        let middle = begin + group_width * 2 / 5;
        for (line, part) in (0..).zip(two_lines(name)) {
            area.draw(&Text::new(part, (middle, base + 6 + 15 * line), centred(12, VPos::Top)))?;
        }
    }
    area.draw(&PathElement::new([(BARS_SIDE, base), (width - BARS_SIDE, base)], BLACK.stroke_width(1)))
}

/// The names of bars in rows of four. Returns where the rows end, in pixels from the top.
fn draw_bar_names(chart: &Bars, area: &Area<'_>) -> Result<i32, DrawingAreaErrorKind<std::io::Error>> {
    const TOP_PIXELS: i32 = 38;
    const ROW_PIXELS: i32 = 20;
    let width = area.dim_in_pixel().0 as i32;
    let left = text_style(TEXT_PIXELS - 2).pos(Pos::new(HPos::Left, VPos::Top));
    let step = ((width - 2 * BARS_SIDE) / chart.names.len().clamp(1, 4) as i32).min(200);
    for (at, name) in (0..).zip(&chart.names) {
        let (x, y) = (BARS_SIDE + at % 4 * step, TOP_PIXELS + at / 4 * ROW_PIXELS);
        area.draw(&Rectangle::new([(x, y), (x + 12, y + 12)], bar_colour(at).filled()))?;
        area.draw(&Text::new(name.clone(), (x + 18, y), left.clone()))?;
    }
    Ok(TOP_PIXELS + chart.names.len().div_ceil(4) as i32 * ROW_PIXELS)
}

/// How the numbers on bars are written.
struct Numbers {
    style: TextStyle<'static>,
    height: i32,
}

impl Numbers {
    /// Horizontal if the longest number fits on a bar, else upright, above the bar's end.
    fn on(chart: &Bars, bar_width: i32) -> Self {
        let values = chart.groups.iter().flat_map(|(_, values)| values).filter(|value| !value.is_nan());
        let longest = DIGIT_WIDTH * values.map(|value| short(*value).len() as i32).max().unwrap_or(0);
        let font = ("sans-serif", NUMBER_PIXELS).into_font();
        if longest <= bar_width {
            let style = font.color(&BLACK).pos(Pos::new(HPos::Center, VPos::Bottom));
            return Self { style, height: NUMBER_PIXELS + 6 };
        }
        let upright = font.transform(FontTransform::Rotate270);
        Self { style: upright.color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center)), height: longest + 6 }
    }
}

/// The colour of the bar with this number. Consecutive bars differ in lightness too, so that they can be told
/// apart in black and white.
fn bar_colour(bar: i32) -> RGBColor {
    const ORDER: [usize; 7] = [0, 4, 2, 5, 1, 3, 6];
    COLOURS[ORDER[bar as usize % ORDER.len()]]
}

/// A number, short enough for a bar.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.1}M", v / 1e6),
        v if v >= 1e4 => format!("{:.0}k", v / 1e3),
        v if v >= 100.0 || v.fract() == 0.0 => format!("{v:.0}"),
        v => format!("{v:.2}"),
    }
}

fn two_lines(name: &str) -> Vec<String> {
    let middle = name.len() / 2;
    let cut = name.match_indices('-').map(|(at, _)| at + 1).min_by_key(|at| at.abs_diff(middle));
    match cut {
        Some(cut) if name.len() > 12 => vec![name[..cut].to_owned(), name[cut..].to_owned()],
        _ => vec![name.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(x: [f64; 3]) -> Curves {
        let series = |name: &str, y: f64, is_bound| Series {
            name: name.to_owned(),
            points: x.iter().map(|&x| (x, y / x)).collect(),
            is_bound,
        };
        Curves {
            title: "a trace".to_owned(),
            x: "frames".to_owned(),
            y: "miss ratio".to_owned(),
            series: vec![series("lru", 9.0, false), series("2q", 8.0, false), series("opt", 5.0, true)],
        }
    }

    #[test]
    fn a_chart_names_axes_and_curves_and_needs_nothing_from_outside() {
        for sizes in [[10.0, 20.0, 40.0], [10.0, 100.0, 1000.0]] {
            let text = curves(&chart(sizes));
            for word in ["a trace", "frames", "miss ratio", "lru", "2q", "opt", "</svg>"] {
                assert!(text.contains(word), "{word} is missing");
            }
            assert!(!text.contains("href"), "a link to something outside");
        }
    }

    #[test]
    fn a_logarithmic_axis_has_ticks_at_ones_twos_and_fives() {
        assert_eq!(logarithmic_ticks(&(149.0..6_000.0)), [200.0, 500.0, 1_000.0, 2_000.0, 5_000.0]);
        assert_eq!(logarithmic_ticks(&(0.9..22.0)), [1.0, 2.0, 5.0, 10.0, 20.0]);
    }

    #[test]
    fn ticks_are_whole_numbers() {
        assert_eq!(whole_ticks(&(0.96..2.04)), [1.0, 2.0]);
        assert_eq!(whole_ticks(&(0.88..4.12)), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(whole_ticks(&(96.0..1_004.0)), [200.0, 400.0, 600.0, 800.0, 1_000.0]);
        assert_eq!(whole_ticks(&(0.0..0.4)), [0.0]);
        let text = curves(&chart([1.0, 2.0, 2.0]));
        let labels = |label: &str| text.lines().filter(|line| line.trim() == label).count();
        assert_eq!((labels("1"), labels("2")), (1, 1), "{text}");
        assert_eq!(logarithmic_ticks(&(0.03..3.0)), [1.0, 2.0]);
    }

    /// A number is as wide as its digits or, if upright, as the height of a digit.
    #[test]
    fn numbers_on_bars_do_not_overlap() {
        for (names, groups) in [(2, 2), (5, 9), (10, 9)] {
            let names: Vec<String> = (0..names).map(|name| format!("scheme-{name}")).collect();
            let values = |group| (0..names.len()).map(|name| (4000 + 37 * name + group) as f64).collect();
            let groups = (0..groups).map(|group| (format!("load-{group}"), values(group))).collect();
            let text = bars(&Bars { title: "reads".to_owned(), names, groups });
            let numbers = || text.lines().filter(|line| line.contains("font-size=\"8"));
            let x_of = |line: &str| {
                let (_, after) = line.split_once(" x=\"").unwrap();
                after.split('"').next().unwrap().parse::<i32>().unwrap()
            };
            let width = if text.contains("rotate(270") { NUMBER_PIXELS } else { 4 * DIGIT_WIDTH };
            let places: Vec<i32> = numbers().map(x_of).collect();
            assert!(places.len() >= 4, "{text}");
            assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= width), "{width} {places:?}");
        }
    }

    #[test]
    fn charts_are_stacked() {
        let text = stacked(&[chart([1.0, 2.0, 3.0]), chart([4.0, 5.0, 6.0])]);
        assert_eq!(text.matches("a trace").count(), 2);
        assert!(text.contains(&format!("height=\"{}\"", 2 * HEIGHT)));
    }

    #[test]
    fn curves_side_by_side_differ_in_colour_dashes_and_mark() {
        let series = Series { name: String::new(), points: Vec::new(), is_bound: false };
        for number in 0..20 {
            let (a, b) = (Style::of(number, &series), Style::of(number + 1, &series));
            assert!(a.colour != b.colour && a.dash != b.dash && a.mark != b.mark, "{number}");
        }
    }

    #[test]
    fn bars_carry_their_numbers_and_names() {
        let text = bars(&Bars {
            title: "reads".to_owned(),
            names: vec!["lru".to_owned(), "lru-sp".to_owned()],
            groups: vec![("block-nested-loop-join".to_owned(), vec![123_456.0, 7.0])],
        });
        for word in ["reads", "lru-sp", "block-nested-", "loop-join", "123k", "7"] {
            assert!(text.contains(word), "{word} is missing");
        }
    }

    #[test]
    fn empty_charts_are_drawn_too() {
        let empty = Curves { series: Vec::new(), ..chart([1.0, 2.0, 3.0]) };
        assert!(curves(&empty).contains("a trace"));
    }
}

//! State of the screen: view, order, filter, selected line; changed by keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::columns::TopColumn;
use super::order::{TopOrder, ordered};
use crate::analysis::top::{TopKey, TopLine, TopModel, TopPair, TopRest, TopView};
use crate::operation::model::ProcessKey;

/// Bytes of a filter.
const FILTER_MAX: usize = 256;

/// Subject of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum TopSubject {
    /// The rows of the view.
    #[default]
    View,
    /// The files of a process.
    FilesOf(ProcessKey),
    /// The last operations of a process on a file.
    OperationsOf(TopPair),
}

/// Effect of a key beyond the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopAction {
    /// Draw again.
    Draw,
    /// End of the screen.
    Quit,
    /// Interrupt the program, or end.
    Interrupt,
    /// Suspend this process and the others of its job.
    Suspend,
    /// Begin again, with the names of all files.
    Names,
}

/// State of the screen.
#[derive(Clone, Debug, Default)]
pub struct TopScreen {
    /// View with rows.
    pub(super) view: TopView,
    pub(super) subject: TopSubject,
    /// Subjects and chosen lines to go back to.
    back: Vec<(TopSubject, Option<TopKey>)>,
    pub(super) order: TopOrder,
    pub(super) filter: String,
    /// True while a filter is typed.
    pub(super) is_typing: bool,
    /// True for the amounts of all intervals.
    pub(super) is_total: bool,
    pub(super) has_help: bool,
    /// Line that was chosen, wherever it is; `None`: the first one.
    chosen: Option<TopKey>,
    /// Number of the selected line.
    pub(super) selected: usize,
    /// Number of the first line on the screen.
    pub(super) first: usize,
    /// Model that stays on the screen; `None`: the present one.
    frozen: Option<Box<TopModel>>,
}

impl TopScreen {
    /// Creates the state with this view.
    pub fn new(view: TopView) -> Self {
        Self { view, ..Self::default() }
    }

    /// Returns the view.
    pub fn view(&self) -> TopView {
        self.view
    }

    /// True if the screen does not follow the recording.
    pub fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// Returns the model on the screen.
    pub(super) fn shown<'a>(&'a self, model: &'a TopModel) -> &'a TopModel {
        self.frozen.as_deref().unwrap_or(model)
    }

    /// Returns the lines of the view or of a process, in their order, and the operations without
    /// one.
    pub(super) fn lines(&self, model: &TopModel) -> (Vec<TopLine>, TopRest) {
        let model = self.shown(model);
        let found = match &self.subject {
            TopSubject::View => model.lines(self.view),
            TopSubject::FilesOf(process) => model.files_of(*process),
            TopSubject::OperationsOf(_) => return (Vec::new(), TopRest::default()),
        };
        (ordered(found.lines, self.order, &self.filter, self.is_total), found.rest)
    }

    /// Number of lines.
    fn count(&self, model: &TopModel) -> usize {
        match &self.subject {
            TopSubject::OperationsOf(pair) => self.shown(model).operations_of(pair).count(),
            _ => self.lines(model).0.len(),
        }
    }

    /// Handles a key. `page`: lines of a page.
    pub fn key(&mut self, key: KeyEvent, model: &mut TopModel, page: usize) -> TopAction {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => TopAction::Interrupt,
                KeyCode::Char('z') => TopAction::Suspend,
                _ => TopAction::Draw,
            };
        }
        if self.is_typing {
            self.type_filter(key.code);
            return TopAction::Draw;
        }
        if self.has_help && key.code != KeyCode::Char('q') {
            self.has_help = false;
            return TopAction::Draw;
        }
        match key.code {
            KeyCode::Char('q') => return TopAction::Quit,
            KeyCode::Char('n') => return TopAction::Names,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char(digit @ '1'..='5') => {
                let place = usize::try_from(digit.to_digit(10).unwrap_or(1)).unwrap_or(1) - 1;
                self.change_view(TopView::ALL.get(place).copied().unwrap_or_default(), model);
            }
            KeyCode::Tab => self.next_view(1, model),
            KeyCode::BackTab => self.next_view(TopView::ALL.len() - 1, model),
            KeyCode::Char('t') => self.is_total = !self.is_total,
            KeyCode::Char('r') => self.order.is_reversed = !self.order.is_reversed,
            KeyCode::Char(side @ ('<' | '>')) => {
                let has_pid = self.view == TopView::Processes && self.subject == TopSubject::View;
                let column = self.order.column.neighbour(has_pid, side == '<');
                self.order = TopOrder { column, is_reversed: false };
            }
            KeyCode::Char('/') => (self.is_typing, self.chosen) = (true, None),
            KeyCode::Char(' ') => {
                let live = self.frozen.is_none().then(|| Box::new(model.clone()));
                self.frozen = live;
            }
            KeyCode::Char(letter) => {
                if let Some(column) = TopColumn::by_letter(letter) {
                    self.order = TopOrder { column, is_reversed: false };
                }
            }
            KeyCode::Enter => self.enter(model),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.leave(model),
            code => self.move_to(code, model, page),
        }
        TopAction::Draw
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.filter.len() < FILTER_MAX => self.filter.push(letter),
            _ => {}
        }
    }

    fn move_to(&mut self, code: KeyCode, model: &TopModel, page: usize) {
        let (lines, _) = self.lines(model);
        let is_operations = matches!(self.subject, TopSubject::OperationsOf(_));
        let last = self.count(model).saturating_sub(1);
        let from = if is_operations { self.selected } else { self.place(&lines) };
        let to = match code {
            KeyCode::Up => from.saturating_sub(1),
            KeyCode::Down => from + 1,
            KeyCode::PageUp => from.saturating_sub(page),
            KeyCode::PageDown => from + page,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => from,
        };
        self.selected = to.min(last);
        self.chosen = lines.get(self.selected).map(|line| line.key.clone());
        if self.selected == 0 {
            self.chosen = None;
        }
    }

    /// Returns the number of the chosen line.
    fn place(&self, lines: &[TopLine]) -> usize {
        let chosen = self.chosen.as_ref();
        let place = chosen.and_then(|key| lines.iter().position(|line| line.key == *key));
        // The subject of the line may be gone.
        let last = lines.len().saturating_sub(1);
        place.unwrap_or(if chosen.is_some() { self.selected.min(last) } else { 0 })
    }

    fn next_view(&mut self, step: usize, model: &mut TopModel) {
        let all = TopView::ALL;
        let place = all.iter().position(|view| *view == self.view).unwrap_or(0);
        self.change_view(all.get((place + step) % all.len()).copied().unwrap_or_default(), model);
    }

    fn change_view(&mut self, view: TopView, model: &mut TopModel) {
        (self.view, self.subject) = (view, TopSubject::View);
        self.back.clear();
        (self.chosen, self.selected, self.first) = (None, 0, 0);
        model.set_focus(None);
    }

    /// Shows what the selected line consists of.
    fn enter(&mut self, model: &mut TopModel) {
        let (lines, _) = self.lines(model);
        let Some(line) = lines.get(self.place(&lines)) else { return };
        let next = match &line.key {
            TopKey::Process(process) => TopSubject::FilesOf(*process),
            TopKey::Pair(pair) => {
                model.set_focus(Some(pair.clone()));
                TopSubject::OperationsOf(pair.clone())
            }
            _ => return,
        };
        let from = std::mem::replace(&mut self.subject, next);
        self.back.push((from, Some(line.key.clone())));
        (self.chosen, self.selected, self.first) = (None, 0, 0);
        self.filter.clear();
    }

    /// Ends the filter; without one goes back to where the subject was entered from.
    fn leave(&mut self, model: &mut TopModel) {
        if !self.filter.is_empty() {
            self.filter.clear();
            return;
        }
        if let Some((subject, chosen)) = self.back.pop() {
            (self.subject, self.chosen, self.first) = (subject, chosen, 0);
            model.set_focus(None);
        }
    }

    /// Finds the chosen line among these, and keeps it on a screen with this room.
    pub(super) fn follow(&mut self, lines: &[TopLine], room: usize) {
        self.selected = self.place(lines);
        self.scroll_rows(lines.len(), room);
    }

    /// Keeps the selected row on a screen with this room.
    pub(super) fn scroll_rows(&mut self, count: usize, room: usize) {
        self.selected = self.selected.min(count.saturating_sub(1));
        self.first = self.first.min(self.selected).max((self.selected + 1).saturating_sub(room));
    }
}

//! Questions to a person at a terminal.

use crate::failure::Failure;
use larder_units::system_message;
use std::io::{self, BufRead, IsTerminal, Write};

/// The person; nobody if this is no terminal.
pub(super) struct Questions {
    answers: Option<Box<dyn BufRead>>,
}

impl Questions {
    /// Returns the person at the terminal of the process, if there is one.
    pub(super) fn of_terminal() -> Questions {
        let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        Questions {
            answers: is_terminal.then(|| Box::new(io::stdin().lock()) as Box<dyn BufRead>),
        }
    }

    /// Returns the value of a flag, or the answer to a question.
    ///
    /// # Errors
    /// There is nobody to answer, or no answer.
    pub(super) fn required(
        &mut self,
        value: Option<String>,
        flag: &str,
        question: &str,
    ) -> Result<String, Failure> {
        let answer = match (value, &self.answers) {
            (Some(value), _) => return Ok(value),
            (None, None) => String::new(),
            (None, Some(_)) => self.optional(question)?,
        };
        if answer.is_empty() {
            return Err(Failure::usage(format!("{question}: give {flag}")));
        }
        Ok(answer)
    }

    /// Returns the answer to a question; empty if there is none, or nobody to answer.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn optional(&mut self, question: &str) -> Result<String, Failure> {
        let Some(answers) = &mut self.answers else {
            return Ok(String::new());
        };
        let mut line = String::new();
        let asked =
            write!(io::stderr(), "{question}: ").and_then(|()| answers.read_line(&mut line));
        asked.map_err(|error| Failure::runtime(system_message(&error)))?;
        Ok(line.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EdgeArgs, RouterArgs};
    use super::*;

    fn answers(text: &'static str) -> Questions {
        Questions {
            answers: Some(Box::new(text.as_bytes())),
        }
    }

    /// Failure: a person is asked more than three questions, or an answer is lost.
    #[test]
    fn a_person_answers_and_the_file_says_otherwise() {
        let edge = |text| EdgeArgs::default().text(&mut answers(text));
        let by_acme = edge("http://127.0.0.1:3000\n\na.example, b.example\nmore\n").unwrap();
        assert!(
            by_acme.contains("hosts = [\"a.example\", \"b.example\"]"),
            "{by_acme}"
        );
        assert!(
            by_acme.contains("origin = \"http://127.0.0.1:3000\""),
            "{by_acme}"
        );
        let by_files = edge("/srv/www\n/a/certificate.pem /a/key.pem\n").unwrap();
        assert!(
            by_files.contains("certificate = \"/a/certificate.pem\""),
            "{by_files}"
        );
        assert!(!by_files.contains("\n[http.tls.acme]"), "{by_files}");
        assert!(edge("http://127.0.0.1:3000\none.pem\n").is_err());
        let router = RouterArgs::default()
            .text(&mut answers("udp://192.0.2.1\n"))
            .unwrap();
        assert!(router.contains("to = \"udp://192.0.2.1\""), "{router}");
    }

    /// Failure: a script waits for a person, or does not learn which flag is missing.
    #[test]
    fn nobody_answers() {
        let mut nobody = Questions { answers: None };
        let failure = EdgeArgs::default().text(&mut nobody).unwrap_err();
        assert!(failure.message.contains("--origin"), "{failure}");
        let edge = EdgeArgs {
            origin: Some("/srv/www".to_owned()),
            ..EdgeArgs::default()
        };
        let failure = edge.text(&mut nobody).unwrap_err();
        assert!(failure.message.contains("--host"), "{failure}");
        assert!(RouterArgs::default().text(&mut nobody).is_ok());
    }
}

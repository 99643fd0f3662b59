"""What a user can ask about tickets and messages. Data only: changing the wording takes a new warm start."""

from __future__ import annotations

from rods.tasks.phrasebook_operation import KEEP, Gap, operation

TICKET_STEPS = (
    operation(
        "open",
        "create_ticket title=$title",
        "next_ticket",
        "Open a ticket called '{title}'.",
        "Create a ticket with the title '{title}'.",
        "I need a ticket for '{title}'.",
        gaps=(
            Gap("title", "Open a new ticket.", "The title is '{title}'."),
            Gap("title", "I need another ticket.", "Call it '{title}'."),
        ),
    ),
    operation(
        "open_urgent",
        "create_ticket title=$title priority=$priority",
        "next_ticket",
        "Open a ticket '{title}' with priority {priority}.",
        "Create a priority {priority} ticket called '{title}'.",
        gaps=(Gap("title", "Create a ticket with priority {priority}.", "The title is '{title}'."),),
    ),
    operation(
        "show_ticket",
        "get_ticket ticket_id=$ticket",
        "ticket",
        "Show {ticket}.",
        "What is {ticket} about?",
        "Look up {ticket}.",
        gaps=(Gap("ticket", "Show me one of the tickets.", "I mean {ticket}."),),
    ),
    operation(
        "close",
        "close_ticket ticket_id=$open_ticket",
        "open_ticket",
        "Close {open_ticket}.",
        "{open_ticket} can be closed.",
        "Please mark {open_ticket} as closed.",
        gaps=(Gap("open_ticket", "Close one of the tickets.", "I mean {open_ticket}."),),
    ),
    operation(
        "resolve",
        "resolve_ticket ticket_id=$open_ticket resolution=$text",
        "open_ticket",
        "Resolve {open_ticket} with '{text}'.",
        "{open_ticket} is solved: '{text}'.",
        gaps=(
            Gap("text", "Resolve {open_ticket}.", "The resolution is '{text}'."),
            Gap("text", "{open_ticket} is solved.", "Write '{text}' as the resolution."),
        ),
    ),
    operation(
        "reprioritise",
        "edit_ticket ticket_id=$ticket updates=$new_priority",
        "ticket",
        "Set the priority of {ticket} to {new_priority}.",
        "Give {ticket} priority {new_priority}.",
        gaps=(Gap("new_priority", "Change the priority of {ticket}.", "Make it {new_priority}."),),
    ),
    operation(
        "retitle",
        "edit_ticket ticket_id=$ticket updates=$new_title",
        "ticket",
        "Change the title of {ticket} to '{new_title}'.",
        "{ticket} should be called '{new_title}'.",
        gaps=(Gap("new_title", "Give {ticket} another title.", "Call it '{new_title}'."),),
    ),
    operation("my_tickets", "get_user_tickets", KEEP, "List my tickets.", "Which tickets are mine?"),
    operation(
        "my_status",
        "get_user_tickets status=$status",
        KEEP,
        "List my {status} tickets.",
        "Which of my tickets are {status}?",
    ),
    operation(
        "open_close",
        "create_ticket title=$title; close_ticket ticket_id=$next_ticket",
        "next_ticket",
        "Open a ticket '{title}' and close it at once.",
        "Create the ticket '{title}', then close it.",
        gaps=(Gap("title", "Open a ticket and close it at once.", "The title is '{title}'."),),
    ),
    operation(
        "open_resolve",
        "create_ticket title=$title; resolve_ticket ticket_id=$next_ticket resolution=$text",
        "next_ticket",
        "Open a ticket '{title}' and resolve it with '{text}'.",
        "Create the ticket '{title}' and mark it solved: '{text}'.",
        gaps=(Gap("text", "Open a ticket '{title}' and resolve it.", "The resolution is '{text}'."),),
    ),
    operation(
        "close2",
        "close_ticket ticket_id=$open_ticket; close_ticket ticket_id=$second_ticket",
        "second_ticket",
        "Close {open_ticket} and {second_ticket}.",
        "Both {open_ticket} and {second_ticket} can be closed.",
    ),
    operation(
        "twin",
        "get_ticket ticket_id=$ticket; create_ticket title=$ticket_title",
        "next_ticket",
        "Open another ticket with the title of {ticket}.",
        "Create a new ticket that is called like {ticket}.",
        gaps=(Gap("ticket", "Open another ticket with the same title.", "The title of {ticket}."),),
    ),
)

MESSAGE_STEPS = (
    operation("who", "list_users", KEEP, "Who is in the workspace?", "List all users."),
    operation(
        "id_of",
        "get_user_id user=$person",
        "person_id",
        "What is the id of {person}?",
        "Look up the id of {person}.",
        gaps=(Gap("person", "Look up the id of a colleague.", "I mean {person}."),),
    ),
    operation(
        "add",
        "add_contact user_name=$newcomer",
        "next_id",
        "Add {newcomer} to my contacts.",
        "{newcomer} is a new contact, add the name.",
        gaps=(
            Gap("newcomer", "Add somebody to my contacts.", "The name is {newcomer}."),
            Gap("newcomer", "I have a new contact.", "It is {newcomer}."),
        ),
    ),
    operation(
        "login",
        "message_login user_id=$receiver",
        KEEP,
        "Log me in as {receiver}.",
        "Switch to the user {receiver}.",
    ),
    operation(
        "stats", "get_message_stats", KEEP, "How many messages are there?", "Show my message statistics."
    ),
    operation("sent", "view_messages_sent", KEEP, "Show all messages.", "What did I send?"),
    operation(
        "search",
        "search_messages keyword=$keyword",
        KEEP,
        "Search my messages for '{keyword}'.",
        "Which messages mention '{keyword}'?",
        gaps=(Gap("keyword", "Search my messages for a word.", "Look for '{keyword}'."),),
    ),
    operation(
        "write_id",
        "send_message receiver_id=$receiver message=$text",
        "receiver",
        "Send '{text}' to {receiver}.",
        "Write '{text}' to {receiver}.",
        "{receiver} should get the message '{text}'.",
        gaps=(
            Gap("text", "Send a message to {receiver}.", "It should say '{text}'."),
            Gap("text", "Write to {receiver}.", "Write '{text}'."),
        ),
    ),
    operation(
        "unsend_id",
        "delete_message receiver_id=$written_to",
        "written_to",
        "Delete the last message to {written_to}.",
        "Take back the latest message to {written_to}.",
    ),
    operation(
        "write",
        "get_user_id user=$person; send_message receiver_id=$person_id message=$text",
        "person_id",
        "Tell {person} '{text}'.",
        "Find the id of {person} and send '{text}'.",
        "Look up {person} and write '{text}'.",
        gaps=(
            Gap("text", "Look up {person} and send a message.", "It should say '{text}'."),
            Gap("person", "Tell a colleague '{text}'.", "Tell {person}."),
        ),
    ),
    operation(
        "unsend",
        "get_user_id user=$pen_friend; delete_message receiver_id=$friend_id",
        "friend_id",
        "Look up {pen_friend} and take back the latest message.",
        "Find the id of {pen_friend} and delete the last message.",
        gaps=(
            Gap(
                "pen_friend", "Look up a colleague and take back the latest message.", "I mean {pen_friend}."
            ),
        ),
    ),
    operation(
        "add_write",
        "add_contact user_name=$newcomer; send_message receiver_id=$next_id message=$text",
        "next_id",
        "Add {newcomer} to my contacts and send '{text}' there.",
        "{newcomer} is a new contact; write '{text}' to the new id.",
        gaps=(Gap("text", "Add the contact {newcomer} and send a message.", "It should say '{text}'."),),
    ),
)

RELAYS = (
    operation(
        "file_ticket",
        "cat file_name=$note; create_ticket title=$note_text",
        "next_ticket",
        "Read {note} and open a ticket with its text as the title.",
        "The text of {note} is the title of a new ticket, so read it and open one.",
        gaps=(Gap("note", "Open a ticket with the text of a file as its title.", "I mean {note}."),),
    ),
    operation(
        "ticket_file",
        "get_ticket ticket_id=$ticket; echo content=$ticket_title file_name=$file",
        "file",
        "Look up {ticket} and write its title to {file}.",
        "Put the title of {ticket} in {file}.",
        gaps=(Gap("ticket", "Put the title of a ticket in {file}.", "I mean {ticket}."),),
    ),
    operation(
        "id_file",
        "get_user_id user=$person; echo content=$person_id file_name=$file",
        "file",
        "Look up {person} and write the id to {file}.",
        "Put the id of {person} in {file}.",
        gaps=(Gap("person", "Put the id of a colleague in {file}.", "I mean {person}."),),
    ),
    operation(
        "file_mail",
        "cat file_name=$note; get_user_id user=$person; send_message receiver_id=$person_id message=$note_text",
        "person_id",
        "Read {note}, then look up {person} and send its text.",
        "Send the text of {note} to {person}.",
        gaps=(Gap("person", "Send the text of {note} to a colleague.", "Send it to {person}."),),
    ),
    operation(
        "ticket_mail",
        "get_ticket ticket_id=$ticket; get_user_id user=$person; "
        "send_message receiver_id=$person_id message=$ticket_title",
        "person_id",
        "Look up {ticket}, then look up {person} and send its title.",
        "Send the title of {ticket} to {person}.",
        gaps=(Gap("person", "Send the title of {ticket} to a colleague.", "Send it to {person}."),),
    ),
    operation(
        "count_mail",
        "wc file_name=$file mode=$mode; get_user_id user=$person; "
        "send_message receiver_id=$person_id message=$counted",
        "person_id",
        "Count the {mode} of {file}, then look up {person} and send the number.",
        "Send the number of {mode} of {file} to {person}.",
        gaps=(Gap("person", "Send the number of {mode} of {file} to a colleague.", "Send it to {person}."),),
    ),
)
